// Attribute text of the convolution family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kKinds[] = {"fprop", "wgrad", "dgrad"};

constexpr AttributeRow kConvolution[] = {
    Attribute("window", kWindow, offsetof(ConvolutionAttributes, window)).Optional(),
    Attribute("dim_labels", kDimLabels, offsetof(ConvolutionAttributes, dim_labels)),
    Attribute("feature_group_count", kInt, offsetof(ConvolutionAttributes, feature_group_count))
        .OmittedIf(1),
    Attribute("batch_group_count", kInt, offsetof(ConvolutionAttributes, batch_group_count))
        .OmittedIf(1),
    Attribute("convolution_kind", kWord, offsetof(ConvolutionAttributes, convolution_kind))
        .Words(kKinds)
        .Optional(),
    Attribute("operand_precision", kPrecision, offsetof(ConvolutionAttributes, precision))
        .Optional(),
    Attribute("sparsity_config", kRaw, offsetof(ConvolutionAttributes, sparsity_config)).Optional(),
};

}  // namespace

std::span<const OpcodeAttributes> ConvolutionRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kConvolution, kConvolution},
  };
  return kTable;
}

}  // namespace gshard
