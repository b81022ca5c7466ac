#include "ir/constant_fill.h"

#include <cmath>
#include <vector>

#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// What `x` has its elements from, where all that it does is to put them elsewhere.
const Instruction* WhereMade(const Instruction* x) {
  const auto puts_elsewhere = [](const Instruction& y) {
    if (y.opcode() == Opcode::kBroadcast || y.opcode() == Opcode::kTranspose) return true;
    if (IsIdentityCall(y)) return y.operand_count() == 1;
    // A bitcast may read the bytes as another type.
    return KeepsOrder(y.opcode()) && y.shape()->IsArray() &&
           y.shape()->dtype() == y.operand(0)->shape()->dtype();
  };
  while (puts_elsewhere(*x)) x = x->operand(0);
  return x;
}

const Literal* FillOfConstant(const Instruction* x) {
  if (x->opcode() != Opcode::kConstant || !x->shape()->IsArray()) return nullptr;
  const Literal* literal = x->attributes<ConstantAttributes>().literal;
  return literal != nullptr && !literal->elided && IsSplat(*literal) ? literal : nullptr;
}

std::optional<double> FirstNumber(const Literal& literal) {
  constexpr int64_t kMostExact = int64_t{1} << 53;
  switch (ClassOf(literal.shape->dtype())) {
    case DTypeClass::kFloat:
      return ElementAsDouble(literal, 0);
    case DTypeClass::kComplex: {
      const std::complex<double> value = ElementAsComplex(literal, 0);
      return value.imag() == 0 ? std::optional(value.real()) : std::nullopt;
    }
    case DTypeClass::kPredicate:
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned: {
      const int64_t value = ElementAsInt64(literal, 0);
      const bool is_signed = ClassOf(literal.shape->dtype()) == DTypeClass::kSigned;
      const bool is_exact = (is_signed ? -kMostExact : 0) <= value && value <= kMostExact;
      return is_exact ? std::optional(static_cast<double>(value)) : std::nullopt;
    }
    default:  // no numbers
      return std::nullopt;
  }
}

// `value` in another type; nothing where an integer type has no such number.
std::optional<double> Converted(double value, DType to) {
  const int bits = DTypeBits(to);
  switch (ClassOf(to)) {
    case DTypeClass::kFloat:
      if (bits <= 16) return DecodeSmallFloat(to, EncodeSmallFloat(to, value));
      return bits == 32 ? static_cast<double>(static_cast<float>(value)) : value;
    case DTypeClass::kComplex:
      return bits == 64 ? static_cast<double>(static_cast<float>(value)) : value;
    case DTypeClass::kPredicate:
      return value != 0 ? 1.0 : 0.0;
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned: {
      const bool is_signed = ClassOf(to) == DTypeClass::kSigned;
      const double whole = std::trunc(value);
      const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
      const bool fits = whole >= (is_signed ? -end : 0) && whole < end;  // no NaN does
      return fits ? std::optional(whole + 0.0) : std::nullopt;
    }
    default:  // no numbers
      return std::nullopt;
  }
}

}  // namespace

const Literal* ConstantFill(const Instruction* x) { return FillOfConstant(WhereMade(x)); }

std::optional<double> FillingNumber(const Instruction* x) {
  std::vector<DType> types;  // of converts, the last first
  for (x = WhereMade(x); x->opcode() == Opcode::kConvert; x = WhereMade(x->operand(0))) {
    types.push_back(x->shape()->dtype());
  }
  const Literal* fill = FillOfConstant(x);
  std::optional<double> number = fill == nullptr ? std::nullopt : FirstNumber(*fill);
  while (number && !types.empty()) {
    number = Converted(*number, types.back());
    types.pop_back();
  }
  return number;
}

bool IsFilledWith(const Instruction* x, double value) {
  const std::optional<double> number = FillingNumber(x);
  return number && *number == value && std::signbit(*number) == std::signbit(value);
}

bool IsFilledWithZero(const Instruction* x) { return FillingNumber(x) == 0.0; }

}  // namespace gshard
