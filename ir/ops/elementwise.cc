// Attribute text of the elementwise family (see ir/attribute_table.h).
#include <cstddef>
#include <type_traits>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
constexpr std::string_view kCompareTypes[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};

// As newer text has it, by ComparisonType: order=TOTAL is type=TOTALORDER.
constexpr std::string_view kCompareOrders[] = {"PARTIAL", "", "TOTAL"};

constexpr AttributeRow kMath[] = {
    Attribute("result_accuracy", kRaw, offsetof(MathAttributes, result_accuracy)).Optional(),
};
constexpr AttributeRow kReducePrecision[] = {
    Attribute("exponent_bits", kInt, offsetof(ReducePrecisionAttributes, exponent_bits)),
    Attribute("mantissa_bits", kInt, offsetof(ReducePrecisionAttributes, mantissa_bits)),
};
constexpr AttributeRow kCompare[] = {
    Attribute("direction", kEnum, offsetof(CompareAttributes, direction)).Words(kDirections),
    Attribute("type", kEnum, offsetof(CompareAttributes, type)).Words(kCompareTypes).Optional(),
    Attribute("order", kEnum, offsetof(CompareAttributes, type)).Words(kCompareOrders).ReadOnly(),
};
constexpr AttributeRow kMap[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)).AlwaysPrinted(),
    Calls("to_apply"),
};

}  // namespace

std::span<const OpcodeAttributes> ElementwiseRows() {
  // All that have MathAttributes have the same text.
  static constexpr OpcodeAttributes kTable[] = {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, ...) \
  {Opcode::enumerator, std::is_same_v<attributes, MathAttributes>       \
                           ? std::span(kMath)                           \
                           : std::span<const AttributeRow>()},
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
      {Opcode::kReducePrecision, kReducePrecision},
      {Opcode::kCompare, kCompare},
      {Opcode::kMap, kMap},
  };
  return kTable;
}

}  // namespace gshard
