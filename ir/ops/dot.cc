// Attribute text of the dot family (see ir/attribute_table.h).
#include <cstddef>
#include <span>

#include "ir/attribute_table.h"
#include "ir/dot_algorithms.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kLhsBatch =
    Attribute("lhs_batch_dims", kDims, offsetof(DotAttributes, lhs_batch)).Optional();
constexpr AttributeRow kLhsContracting =
    Attribute("lhs_contracting_dims", kDims, offsetof(DotAttributes, lhs_contracting))
        .AlwaysPrinted();
constexpr AttributeRow kRhsBatch =
    Attribute("rhs_batch_dims", kDims, offsetof(DotAttributes, rhs_batch)).Optional();
constexpr AttributeRow kRhsContracting =
    Attribute("rhs_contracting_dims", kDims, offsetof(DotAttributes, rhs_contracting))
        .AlwaysPrinted();
constexpr AttributeRow kOperandPrecision =
    Attribute("operand_precision", kPrecision, offsetof(DotAttributes, precision)).Optional();

constexpr AttributeRow kDot[] = {
    kLhsBatch,
    kLhsContracting,
    kRhsBatch,
    kRhsContracting,
    kOperandPrecision,
    Attribute("algorithm", kWord, offsetof(DotAttributes, algorithm))
        .Words(std::span(kDotAlgorithms).subspan(1))
        .Optional(),
};
constexpr AttributeRow kRaggedDot[] = {
    kLhsBatch,
    kLhsContracting,
    kRhsBatch,
    kRhsContracting,
    Attribute("lhs_ragged_dims", kDims, offsetof(DotAttributes, lhs_ragged)).Optional(),
    Attribute("rhs_group_dims", kDims, offsetof(DotAttributes, rhs_group)).Optional(),
    kOperandPrecision,
};
constexpr AttributeRow kScaledDot[] = {
    kLhsBatch, kLhsContracting, kRhsBatch, kRhsContracting, kOperandPrecision,
};

}  // namespace

std::span<const OpcodeAttributes> DotRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kDot, kDot},
      {Opcode::kRaggedDot, kRaggedDot},
      {Opcode::kScaledDot, kScaledDot},
  };
  return kTable;
}

}  // namespace gshard
