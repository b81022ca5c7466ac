// Attribute text of the reduce family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kReduceRows[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)),
    Calls("to_apply"),
};
constexpr AttributeRow kScan[] = {
    Attribute("dimensions", kDim, offsetof(ScanAttributes, dimension)),
    Attribute("num_carries", kInt, offsetof(ScanAttributes, num_carries)),
    Attribute("is_reverse", kBool, offsetof(ScanAttributes, is_reverse)).Optional(),
    Attribute("is_associative", kBool, offsetof(ScanAttributes, is_associative)).AlwaysPrinted(),
    Calls("to_apply"),
};
constexpr AttributeRow kBatchNorm[] = {
    Attribute("epsilon", kDouble, offsetof(BatchNormAttributes, epsilon)),
    Attribute("feature_index", kInt, offsetof(BatchNormAttributes, feature_index)),
};

}  // namespace

std::span<const OpcodeAttributes> ReduceRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kReduce, kReduceRows},           {Opcode::kScan, kScan},
      {Opcode::kBatchNormTraining, kBatchNorm}, {Opcode::kBatchNormInference, kBatchNorm},
      {Opcode::kBatchNormGrad, kBatchNorm},
  };
  return kTable;
}

}  // namespace gshard
