// Elementwise operations, one element at a time (docs/semantics.md, sections 1 to 4).
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

using Z = std::complex<double>;

[[noreturn]] void Unknown(Opcode opcode) {
  throw InternalError(fmt::format("{} needs a line in {} for operands of this class",
                                  OpcodeName(opcode), __FILE__));
}

uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

int64_t IntegerPower(int64_t base, int64_t exponent, bool is_signed) {
  if (is_signed && exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  uint64_t result = 1, factor = Bits(base);
  for (uint64_t n = Bits(exponent); n != 0; n >>= 1) {
    if ((n & 1) != 0) result *= factor;
    factor *= factor;
  }
  return Signed(result);
}

int64_t IntegerUnary(Opcode opcode, DType dtype, int64_t a) {
  const int width = DTypeBits(dtype);
  const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  switch (opcode) {
    case Opcode::kAbs:
      return a < 0 && ClassOf(dtype) == DTypeClass::kSigned ? Signed(0 - Bits(a)) : a;
    case Opcode::kNegate:
      return Signed(0 - Bits(a));
    case Opcode::kSign:
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    case Opcode::kNot:
      return dtype == DType::kPred ? (a == 0) : ~a;
    case Opcode::kPopcnt:
      return std::popcount(Bits(a) & mask);
    case Opcode::kCountLeadingZeros:
      return std::countl_zero(Bits(a) & mask) - (64 - width);
    default:
      Unknown(opcode);
  }
}

int64_t IntegerBinary(Opcode opcode, DType dtype, int64_t a, int64_t b) {
  const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
  const bool is_pred = dtype == DType::kPred;
  const int width = DTypeBits(dtype);
  const bool less = is_signed ? a < b : Bits(a) < Bits(b);
  const bool too_far = Bits(b) >= static_cast<uint64_t>(width);
  const int64_t sign_extended = Signed(Bits(a) << (64 - width)) >> (64 - width);
  switch (opcode) {
    case Opcode::kAdd:
      return is_pred ? (a | b) : Signed(Bits(a) + Bits(b));
    case Opcode::kSubtract:
      return Signed(Bits(a) - Bits(b));
    case Opcode::kMultiply:
      return is_pred ? (a & b) : Signed(Bits(a) * Bits(b));
    case Opcode::kMulhi: {
      __extension__ typedef __int128 Wide;
      const Wide product = is_signed ? Wide{a} * Wide{b} : Wide(Bits(a)) * Wide(Bits(b));
      return static_cast<int64_t>(product >> width);
    }
    case Opcode::kDivide:
      if (b == 0) return -1;
      if (!is_signed) return Signed(Bits(a) / Bits(b));
      return b == -1 ? Signed(0 - Bits(a)) : a / b;
    case Opcode::kRemainder:
      if (b == 0) return a;
      if (!is_signed) return Signed(Bits(a) % Bits(b));
      return b == -1 ? 0 : a % b;
    case Opcode::kPower:
      return IntegerPower(a, b, is_signed);
    case Opcode::kMaximum:
      return less ? b : a;
    case Opcode::kMinimum:
      return less ? a : b;
    case Opcode::kAnd:
      return a & b;
    case Opcode::kOr:
      return a | b;
    case Opcode::kXor:
      return a ^ b;
    case Opcode::kShiftLeft:
      return too_far ? 0 : Signed(Bits(a) << b);
    case Opcode::kShiftRightLogical: {
      const uint64_t field = width == 64 ? Bits(a) : Bits(a) & ((uint64_t{1} << width) - 1);
      return too_far ? 0 : Signed(field >> b);
    }
    case Opcode::kShiftRightArithmetic:
      return sign_extended >> (too_far ? 63 : b);
    default:
      Unknown(opcode);
  }
}

double Maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double Minimum(double a, double b) {
  const double negated = Maximum(-a, -b);
  return std::isnan(negated) ? negated : -negated;
}

double RoundHalfEven(double x) {
  const double floor = std::floor(x), rest = x - floor;
  double result = rest < 0.5                 ? floor
                  : rest > 0.5               ? floor + 1
                  : std::fmod(floor, 2) == 0 ? floor
                                             : floor + 1;
  return std::copysign(std::isfinite(x) ? result : x, x);
}

double RealUnary(Opcode opcode, double x) {
  switch (opcode) {
    case Opcode::kAbs:
      return std::fabs(x);
    case Opcode::kNegate:
      return -x;
    case Opcode::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Opcode::kFloor:
      return std::floor(x);
    case Opcode::kCeil:
      return std::ceil(x);
    case Opcode::kRoundNearestAfz:
      return std::round(x);
    case Opcode::kRoundNearestEven:
      return RoundHalfEven(x);
    case Opcode::kReal:
      return x;
    case Opcode::kImag:
      return 0;
    case Opcode::kExponential:
      return std::exp(x);
    case Opcode::kExponentialMinusOne:
      return std::expm1(x);
    case Opcode::kLog:
      return std::log(x);
    case Opcode::kLogPlusOne:
      return std::log1p(x);
    case Opcode::kLogistic:
      return 1 / (1 + std::exp(-x));
    case Opcode::kSqrt:
      return std::sqrt(x);
    case Opcode::kRsqrt:
      return 1 / std::sqrt(x);
    case Opcode::kCbrt:
      return std::cbrt(x);
    case Opcode::kSine:
      return std::sin(x);
    case Opcode::kCosine:
      return std::cos(x);
    case Opcode::kTan:
      return std::tan(x);
    case Opcode::kTanh:
      return std::tanh(x);
    case Opcode::kSinh:
      return std::sinh(x);
    case Opcode::kCosh:
      return std::cosh(x);
    case Opcode::kAsin:
      return std::asin(x);
    case Opcode::kAcos:
      return std::acos(x);
    case Opcode::kAsinh:
      return std::asinh(x);
    case Opcode::kAcosh:
      return std::acosh(x);
    case Opcode::kAtanh:
      return std::atanh(x);
    case Opcode::kErf:
      return std::erf(x);
    default:
      Unknown(opcode);
  }
}

double RealBinary(Opcode opcode, double a, double b) {
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
    case Opcode::kPower:
      return std::pow(a, b);
    case Opcode::kAtan2:
      return std::atan2(a, b);
    case Opcode::kMaximum:
      return Maximum(a, b);
    case Opcode::kMinimum:
      return Minimum(a, b);
    default:
      Unknown(opcode);
  }
}

Z ComplexUnary(Opcode opcode, Z z) {
  switch (opcode) {
    case Opcode::kAbs:
      return std::abs(z);
    case Opcode::kNegate:
      return -z;
    case Opcode::kSign:
      return z == 0.0 ? z : z / std::abs(z);
    case Opcode::kReal:
      return z.real();
    case Opcode::kImag:
      return z.imag();
    case Opcode::kExponential:
      return std::exp(z);
    case Opcode::kExponentialMinusOne:
      return std::exp(z) - 1.0;
    case Opcode::kLog:
      return std::log(z);
    case Opcode::kLogPlusOne:
      return std::log(1.0 + z);
    case Opcode::kLogistic:
      return 1.0 / (1.0 + std::exp(-z));
    case Opcode::kSqrt:
      return std::sqrt(z);
    case Opcode::kRsqrt:
      return 1.0 / std::sqrt(z);
    case Opcode::kSine:
      return std::sin(z);
    case Opcode::kCosine:
      return std::cos(z);
    case Opcode::kTan:
      return std::tan(z);
    case Opcode::kTanh:
      return std::tanh(z);
    case Opcode::kSinh:
      return std::sinh(z);
    case Opcode::kCosh:
      return std::cosh(z);
    case Opcode::kAsin:
      return std::asin(z);
    case Opcode::kAcos:
      return std::acos(z);
    case Opcode::kAsinh:
      return std::asinh(z);
    case Opcode::kAcosh:
      return std::acosh(z);
    case Opcode::kAtanh:
      return std::atanh(z);
    default:
      Unknown(opcode);
  }
}

Z ComplexBinary(Opcode opcode, Z a, Z b) {
  switch (opcode) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSubtract:
      return a - b;
    case Opcode::kMultiply:
      return a * b;
    case Opcode::kDivide:
      return a / b;
    case Opcode::kPower:
      return a == 0.0 && b == 0.0 ? 1.0 : a == 0.0 ? 0.0 : std::pow(a, b);
    default:
      Unknown(opcode);
  }
}

template <typename T>
bool Holds(ComparisonDirection direction, T a, T b) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return a == b;
    case ComparisonDirection::kNe:
      return a != b;
    case ComparisonDirection::kLt:
      return a < b;
    case ComparisonDirection::kLe:
      return a <= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kGe:
      return a >= b;
  }
  Unknown(Opcode::kCompare);
}

// -NaN < -inf < .. < -0 < +0 < .. < inf < NaN.
int64_t TotalOrder(double x) {
  const int64_t bits = std::bit_cast<int64_t>(x);
  return bits < 0 ? std::numeric_limits<int64_t>::min() - bits - 1 : bits;
}

bool Compare(const CompareAttributes& compare, DType dtype, const Number& a, const Number& b) {
  if (IsComplex(dtype)) {
    return (a.z == b.z) == (compare.direction == ComparisonDirection::kEq);
  }
  if (!IsFloat(dtype)) {
    if (ClassOf(dtype) == DTypeClass::kSigned) return Holds(compare.direction, a.i, b.i);
    return Holds(compare.direction, Bits(a.i), Bits(b.i));
  }
  if (compare.type == ComparisonType::kTotalOrder) {
    return Holds(compare.direction, TotalOrder(a.z.real()), TotalOrder(b.z.real()));
  }
  return Holds(compare.direction, a.z.real(), b.z.real());
}

// The format whose bits are rounded: the type's own; small floats are widened to f16 first, if that
// has their values.
struct WorkingFormat {
  int exponent_bits, mantissa_bits;
};
WorkingFormat WorkingFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {11, 52};
    case DType::kF32:
    case DType::kBF16:
    case DType::kF8E8M0FNU:
      return {8, 23};
    default:
      return {5, 10};
  }
}

double ReducePrecision(const ReducePrecisionAttributes& to, DType dtype, double x) {
  if (!std::isfinite(x) || x == 0) return x;
  const WorkingFormat own = WorkingFormatOf(dtype);
  const int bias = (1 << (own.exponent_bits - 1)) - 1;
  const int mantissa = static_cast<int>(std::min<int64_t>(to.mantissa_bits, own.mantissa_bits));
  const int exponent = std::max(std::ilogb(x), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - mantissa), steps = x / unit;
  double rounded = std::nearbyint(steps) * unit;
  // Without a mantissa the last bit, which decides ties, is that of the exponent.
  if (mantissa == 0 && std::fabs(steps) == 1.5 && (exponent + bias) % 2 == 0) {
    rounded = std::copysign(unit, x);
  }
  const bool limited = to.exponent_bits < own.exponent_bits;
  const int largest = limited ? (1 << (to.exponent_bits - 1)) - 1 : bias;
  if (std::ilogb(rounded) > largest) return std::copysign(HUGE_VAL, x);
  if (limited && std::ilogb(rounded) < 1 - largest) return std::copysign(0.0, x);
  return rounded;
}

}  // namespace

Number ConvertReference(DType from, DType to, Number number) {
  const bool to_number = IsFloat(to) || IsComplex(to);
  if (!IsFloat(from) && !IsComplex(from)) {
    if (!to_number) return RoundTo(to, number);
    if (to == DType::kF32 || to == DType::kC64) {
      return {0, from == DType::kU64 ? static_cast<float>(Bits(number.i))
                                     : static_cast<float>(number.i)};
    }
    const double value =
        from == DType::kU64 ? static_cast<double>(Bits(number.i)) : static_cast<double>(number.i);
    return RoundTo(to, {0, value});
  }
  if (to_number) return RoundTo(to, number);
  const double x = number.z.real();
  if (to == DType::kPred) return {x != 0, 0};
  if (std::isnan(x)) return {};
  const int width = DTypeBits(to);
  const bool is_signed = ClassOf(to) == DTypeClass::kSigned;
  const double limit = std::ldexp(1.0, is_signed ? width - 1 : width);
  if (x >= limit) {
    return {is_signed ? Signed((uint64_t{1} << (width - 1)) - 1)
                      : Signed(width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1),
            0};
  }
  if (is_signed)
    return {x <= -limit ? Signed(~uint64_t{0} << (width - 1)) : static_cast<int64_t>(x), 0};
  return {x <= 0 ? 0 : Signed(static_cast<uint64_t>(x)), 0};
}

Number ElementReference(const Instruction& x, std::span<const Number> operands) {
  const DType result = x.shape()->dtype();
  const DType type = x.operand(0)->shape()->dtype();
  const Number& a = operands[0];
  const bool is_number = IsFloat(type) || IsComplex(type);
  switch (x.opcode()) {
    case Opcode::kCopy:
      return a;
    case Opcode::kConvert:
      return ConvertReference(type, result, a);
    case Opcode::kIsFinite:
      return {std::isfinite(a.z.real()), 0};
    case Opcode::kComplex:
      return RoundTo(result, {0, {a.z.real(), operands[1].z.real()}});
    case Opcode::kCompare:
      return {Compare(x.attributes<CompareAttributes>(), type, a, operands[1]), 0};
    case Opcode::kSelect:
      return a.i != 0 ? operands[1] : operands[2];
    case Opcode::kReducePrecision:
      return RoundTo(result, {0, ReducePrecision(x.attributes<ReducePrecisionAttributes>(), type,
                                                 a.z.real())});
    case Opcode::kClamp: {
      const Number &value = operands[1], &high = operands[2];
      if (IsFloat(result)) {
        return {0, -Maximum(-Maximum(a.z.real(), value.z.real()), -high.z.real())};
      }
      return {IntegerBinary(Opcode::kMinimum, result,
                            IntegerBinary(Opcode::kMaximum, result, a.i, value.i), high.i),
              0};
    }
    default:
      break;
  }
  Number out;
  if (operands.size() == 1) {
    if (IsComplex(type)) {
      out.z = ComplexUnary(x.opcode(), a.z);
    } else if (is_number) {
      out.z = RealUnary(x.opcode(), a.z.real());
    } else {
      out.i = IntegerUnary(x.opcode(), type, a.i);
    }
  } else {
    const Number& b = operands[1];
    if (IsComplex(type)) {
      out.z = ComplexBinary(x.opcode(), a.z, b.z);
    } else if (is_number) {
      out.z = RealBinary(x.opcode(), a.z.real(), b.z.real());
    } else {
      out.i = IntegerBinary(x.opcode(), type, a.i, b.i);
    }
  }
  // Floats of at most 16 bits are computed in f32.
  if (IsFloat(result) && DTypeBits(result) <= 16) out = RoundTo(DType::kF32, out);
  return RoundTo(result, out);
}

ReferenceValue ElementwiseReference(const Instruction& x, ReferenceOperands operands) {
  ReferenceValue result = Zeros(x.shape());
  std::vector<Number> elements(operands.size());
  const int64_t count =
      x.shape()->IsTuple() ? x.shape()->element(0)->element_count() : x.shape()->element_count();
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    for (size_t k = 0; k < operands.size(); ++k) {
      elements[k] = operands[k].data[operands[k].shape->IsScalar() ? 0 : at];
    }
    if (x.opcode() != Opcode::kMap) {
      result.data[at] = ElementReference(x, elements);
      continue;
    }
    const std::vector<Number> leaves = CallScalars(*x.called(0), elements);
    if (!x.shape()->IsTuple()) result.data[at] = leaves[0];
    for (size_t k = 0; k < result.elements.size(); ++k) result.elements[k].data[at] = leaves[k];
  }
  return result;
}

}  // namespace gshard::cpu
