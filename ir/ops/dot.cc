// Attribute text of the dot family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kDotAlgorithms[] = {
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
};

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
        .Words(kDotAlgorithms)
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
