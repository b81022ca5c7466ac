#include "ir/stablehlo/import/fold_constants.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ir/comparison.h"
#include "ir/integer_operation.h"

namespace gshard::stablehlo {
namespace {

bool IsWhole(DType dtype) { return IsInteger(dtype) || dtype == DType::kPred; }

// Sums, products, quotients and roots of f32 and narrower are those of double, rounded once more:
// double has more than twice their digits.
std::optional<double> FoldFloats(Opcode opcode, double a, double b) {
  switch (opcode) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSubtract:
      return a - b;
    case Opcode::kMultiply:
      return a * b;
    case Opcode::kDivide:
      return a / b;
    case Opcode::kRemainder:
      return std::fmod(a, b);
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      if (std::isnan(a) || std::isnan(b)) return std::nullopt;
      return opcode == Opcode::kMaximum ? std::max(a, b) : std::min(a, b);
    case Opcode::kNegate:
      return -a;
    case Opcode::kAbs:
      return std::abs(a);
    case Opcode::kSqrt:
      return std::sqrt(a);
    case Opcode::kRsqrt:
      return 1 / std::sqrt(a);
    case Opcode::kExponential:
      return std::exp(a);
    case Opcode::kLog:
      return std::log(a);
    case Opcode::kTanh:
      return std::tanh(a);
    case Opcode::kSine:
      return std::sin(a);
    case Opcode::kCosine:
      return std::cos(a);
    default:
      return std::nullopt;
  }
}

// Of converts: to a type that holds the number, or rounds it to nearest.
const Literal* FoldConvert(Arena& arena, const Shape* shape, const Literal& operand) {
  const DType from = operand.shape->dtype(), to = shape->dtype();
  if (IsFloat(to)) {
    // Not every s64 is a double.
    constexpr int64_t kExact = int64_t{1} << 53;
    if (IsWhole(from) && std::abs(ElementAsInt64(operand, 0)) > kExact) return nullptr;
    return DTypeBits(to) >= 16 ? SplatLiteral(arena, shape, ElementAsDouble(operand, 0)) : nullptr;
  }
  if (!IsWhole(to) || !IsWhole(from)) return nullptr;
  const int64_t value = ElementAsInt64(operand, 0);
  const int64_t element = to == DType::kPred ? value != 0 : WrapToType(value, to);
  return IntegerLiteral(arena, shape, {&element, 1});
}

}  // namespace

const Literal* FoldScalars(Arena& arena, Context& context, const Instruction& x,
                           std::span<const Literal* const> operands) {
  if (operands.empty() || operands.size() > 2) return nullptr;
  const DType dtype = operands[0]->shape->dtype();
  const Shape* shape = context.Scalar(x.shape()->dtype());
  if (x.opcode() == Opcode::kConvert) return FoldConvert(arena, shape, *operands[0]);
  if (operands.size() == 2 && operands[1]->shape->dtype() != dtype) return nullptr;
  if (IsWhole(dtype) && IsWhole(shape->dtype()) && IsIntegerOperation(x.opcode())) {
    std::vector<int64_t> elements;
    for (const Literal* operand : operands) elements.push_back(ElementAsInt64(*operand, 0));
    const bool divides = x.opcode() == Opcode::kDivide || x.opcode() == Opcode::kRemainder;
    if (divides && elements[1] == 0) return nullptr;
    const int64_t element = EvaluateInteger(x, elements);
    return IntegerLiteral(arena, shape, {&element, 1});
  }
  if (!IsFloat(dtype) || DTypeBits(dtype) < 16) return nullptr;
  const double a = ElementAsDouble(*operands[0], 0);
  const double b = operands.size() == 2 ? ElementAsDouble(*operands[1], 0) : 0;
  if (x.opcode() == Opcode::kCompare) {
    const auto& compare = x.attributes<CompareAttributes>();
    if (compare.type == ComparisonType::kTotalOrder) return nullptr;
    const int64_t element = Holds(compare.direction, a, b);
    return IntegerLiteral(arena, shape, {&element, 1});
  }
  const std::optional<double> value = FoldFloats(x.opcode(), a, b);
  return value.has_value() && shape->dtype() == dtype ? SplatLiteral(arena, shape, *value)
                                                      : nullptr;
}

}  // namespace gshard::stablehlo
