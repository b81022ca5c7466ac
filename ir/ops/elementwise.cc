// Attribute text of the elementwise family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
constexpr std::string_view kCompareTypes[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};

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
};
constexpr AttributeRow kMap[] = {
    Attribute("dimensions", kDims, offsetof(DimensionsAttributes, dimensions)).AlwaysPrinted(),
    Calls("to_apply"),
};

}  // namespace

std::span<const OpcodeAttributes> ElementwiseRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kExponential, kMath},
      {Opcode::kExponentialMinusOne, kMath},
      {Opcode::kLog, kMath},
      {Opcode::kLogPlusOne, kMath},
      {Opcode::kLogistic, kMath},
      {Opcode::kSqrt, kMath},
      {Opcode::kRsqrt, kMath},
      {Opcode::kCbrt, kMath},
      {Opcode::kSine, kMath},
      {Opcode::kCosine, kMath},
      {Opcode::kTan, kMath},
      {Opcode::kTanh, kMath},
      {Opcode::kSinh, kMath},
      {Opcode::kCosh, kMath},
      {Opcode::kAsin, kMath},
      {Opcode::kAcos, kMath},
      {Opcode::kAsinh, kMath},
      {Opcode::kAcosh, kMath},
      {Opcode::kAtanh, kMath},
      {Opcode::kErf, kMath},
      {Opcode::kReducePrecision, kReducePrecision},
      {Opcode::kCompare, kCompare},
      {Opcode::kMap, kMap},
  };
  return kTable;
}

}  // namespace gshard
