// Floats of at most 16 bits: encoding with one rounding, decoding; docs/semantics.md, "Converts".
#include <bit>
#include <cmath>
#include <limits>

#include "ir/diagnostic.h"
#include "ir/literal.h"

namespace gshard {
namespace {

// What becomes of NaN and of values above the largest.
enum class Overflow : uint8_t {
  kInfinity,   // has infinities; NaNs are what lies above them
  kNan,        // no infinity; NaN is the all-ones pattern of either sign
  kUnsigned0,  // no infinity, no negative zero: its pattern is the one NaN
  kSaturate,   // no infinity, no NaN
  kPower,      // powers of two only: no sign, no zero; NaN is all ones
};

struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint16_t largest;  // bits of the largest finite value
  Overflow overflow;
  int sign_bit() const { return exponent_bits + mantissa_bits; }
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10, 15, 0x7bff, Overflow::kInfinity};
    case DType::kBF16:
      return {8, 7, 127, 0x7f7f, Overflow::kInfinity};
    case DType::kF8E5M2:
      return {5, 2, 15, 0x7b, Overflow::kInfinity};
    case DType::kF8E4M3:
      return {4, 3, 7, 0x77, Overflow::kInfinity};
    case DType::kF8E3M4:
      return {3, 4, 3, 0x6f, Overflow::kInfinity};
    case DType::kF8E4M3FN:
      return {4, 3, 7, 0x7e, Overflow::kNan};
    case DType::kF8E4M3B11FNUZ:
      return {4, 3, 11, 0x7f, Overflow::kUnsigned0};
    case DType::kF8E5M2FNUZ:
      return {5, 2, 16, 0x7f, Overflow::kUnsigned0};
    case DType::kF8E4M3FNUZ:
      return {4, 3, 8, 0x7f, Overflow::kUnsigned0};
    case DType::kF8E8M0FNU:
      return {8, 0, 127, 0xfe, Overflow::kPower};
    case DType::kF4E2M1FN:
      return {2, 1, 1, 0x7, Overflow::kSaturate};
    case DType::kF6E3M2FN:
      return {3, 2, 3, 0x1f, Overflow::kSaturate};
    case DType::kF6E2M3FN:
      return {2, 3, 1, 0x1f, Overflow::kSaturate};
    default:
      throw InternalError("not a float type of at most 16 bits");
  }
}

// The bits of NaN, sign included.
uint16_t NanOf(const Format& format, bool negative) {
  const auto sign = static_cast<uint16_t>((negative ? 1 : 0) << format.sign_bit());
  switch (format.overflow) {
    case Overflow::kInfinity:  // quiet: the top mantissa bit above infinity
      return static_cast<uint16_t>(sign |
                                   ((format.largest + 1) | (1 << (format.mantissa_bits - 1))));
    case Overflow::kNan:
      return static_cast<uint16_t>(sign | (format.largest + 1));
    case Overflow::kUnsigned0:
      return static_cast<uint16_t>(1 << format.sign_bit());
    case Overflow::kSaturate:  // as XLA: zero of the opposite sign
      return static_cast<uint16_t>((negative ? 0 : 1) << format.sign_bit());
    case Overflow::kPower:
      return 0xff;
  }
  return 0;
}

}  // namespace

uint16_t EncodeSmallFloat(DType dtype, double value) {
  const Format format = FormatOf(dtype);
  const bool negative = std::signbit(value);
  const bool power = format.overflow == Overflow::kPower;
  if (std::isnan(value) || (power && (negative || value == 0 || std::isinf(value)))) {
    return NanOf(format, negative);
  }
  const auto sign = static_cast<uint16_t>((negative ? 1 : 0) << format.sign_bit());
  const double magnitude = std::fabs(value);
  uint32_t bits = 0;
  if (std::isinf(value)) {
    bits = static_cast<uint32_t>(format.largest) + 1;
  } else if (magnitude != 0) {
    // The unit of the last place: of the smallest normal number for denormals.
    const int min_exponent = (power ? 0 : 1) - format.bias;
    const int exponent = std::max(std::ilogb(magnitude), min_exponent);
    const int unit = exponent - format.mantissa_bits;
    const auto rounded = static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    if (power) {
      bits = static_cast<uint32_t>(exponent + format.bias + (rounded > 1 ? 1 : 0));
    } else {
      // A carry out of the mantissa moves into the exponent by itself.
      const int64_t biased = exponent + format.bias - 1;
      const int64_t all = (biased << format.mantissa_bits) + rounded;
      bits = all > format.largest ? uint32_t{format.largest} + 1 : static_cast<uint32_t>(all);
    }
  }
  if (bits > format.largest) {
    switch (format.overflow) {
      case Overflow::kInfinity:
        return static_cast<uint16_t>(sign | (format.largest + 1));
      case Overflow::kSaturate:
        return static_cast<uint16_t>(sign | format.largest);
      default:
        return NanOf(format, negative);
    }
  }
  if (bits == 0 && format.overflow == Overflow::kUnsigned0) return 0;
  return static_cast<uint16_t>(sign | bits);
}

double DecodeSmallFloat(DType dtype, uint16_t bits) {
  if (dtype == DType::kBF16) {  // the upper half of a float
    return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16));
  }
  const Format format = FormatOf(dtype);
  if (format.overflow == Overflow::kPower) {
    return bits == 0xff ? std::numeric_limits<double>::quiet_NaN()
                        : std::ldexp(1.0, bits - format.bias);
  }
  const bool negative = ((bits >> format.sign_bit()) & 1) != 0;
  const int magnitude = bits & ((1 << format.sign_bit()) - 1);
  const auto signed_value = [negative](double value) { return negative ? -value : value; };
  if (format.overflow == Overflow::kUnsigned0 && negative && magnitude == 0) {
    return -std::numeric_limits<double>::quiet_NaN();  // its sign bit is set
  }
  if (magnitude > format.largest) {
    if (format.overflow == Overflow::kInfinity && magnitude == format.largest + 1) {
      return signed_value(std::numeric_limits<double>::infinity());
    }
    // The payload moves to the top of the mantissa.
    const int payload = magnitude & ((1 << format.mantissa_bits) - 1);
    const uint64_t exponent_and_sign =
        uint64_t{0x7ff0000000000000} | (negative ? uint64_t{1} << 63 : 0);
    return std::bit_cast<double>(exponent_and_sign |
                                 (static_cast<uint64_t>(payload) << (52 - format.mantissa_bits)));
  }
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
  if (exponent == 0) {
    return signed_value(std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits));
  }
  return signed_value(std::ldexp(mantissa + (1 << format.mantissa_bits),
                                 exponent - format.bias - format.mantissa_bits));
}

}  // namespace gshard
