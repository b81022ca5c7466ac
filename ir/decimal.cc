// Most values lie where exact 128-bit integer arithmetic gives their digits:
//
//   value = mantissa * 2^exponent,  digits = round(value * 10^scale) = round(numerator / 2^shift)
//
// with numerator = mantissa * 10^scale below 2^127 and shift = -exponent. Others go through
// std::to_chars.
#include "ir/decimal.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace gshard {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr std::array<uint64_t, 20> kPowers = [] {
  std::array<uint64_t, 20> powers{};
  uint64_t power = 1;
  for (uint64_t& entry : powers) {
    entry = power;
    power *= 10;
  }
  return powers;
}();

struct Binary {
  uint64_t mantissa;  // odd
  int exponent;
  int decimal_exponent;  // floor(log10(value)), or one less
};

Binary Split(double magnitude) {
  const auto bits = std::bit_cast<uint64_t>(magnitude);
  const int biased = static_cast<int>(bits >> 52);
  uint64_t mantissa = bits & 0xfffffffffffff;
  int exponent = -1074;
  if (biased != 0) {
    mantissa |= uint64_t{1} << 52;
    exponent = biased - 1075;
  }
  const int zeros = std::countr_zero(mantissa);
  mantissa >>= zeros;
  exponent += zeros;
  const int log2 = exponent + 63 - std::countl_zero(mantissa);
  // log10(2) = 78913 / 2^18, exactly enough for all exponents of double.
  return {mantissa, exponent, (log2 * 78913) >> 18};
}

// The value's first `precision` digits as one integer, and what rounding changed.
struct Digits {
  uint64_t digits;
  int exponent;    // of the first digit
  Wide power;      // 10^scale
  Wide numerator;  // power * mantissa: the value is numerator / 2^shift units of the last digit
  int shift;
};

// False outside the range of 128-bit arithmetic.
bool FirstDigits(const Binary& binary, int precision, Digits& result) {
  for (int exponent = binary.decimal_exponent; exponent <= binary.decimal_exponent + 1;
       ++exponent) {
    const int scale = precision - 1 - exponent;
    const int shift = -binary.exponent;
    if (scale < 0 || scale > 38 || shift < 0 || shift > 126) return false;
    const Wide power = static_cast<Wide>(kPowers[static_cast<size_t>(std::min(scale, 19))]) *
                       kPowers[static_cast<size_t>(std::max(scale - 19, 0))];
    // The product must stay below 2^127.
    const int power_bits = 128 - (static_cast<uint64_t>(power >> 64) != 0
                                      ? std::countl_zero(static_cast<uint64_t>(power >> 64))
                                      : 64 + std::countl_zero(static_cast<uint64_t>(power)));
    if (power_bits + 64 - std::countl_zero(binary.mantissa) > 127) return false;
    const Wide numerator = power * binary.mantissa;
    Wide digits = numerator >> shift;
    const Wide rest = numerator - (digits << shift);
    const Wide half = shift > 0 ? static_cast<Wide>(1) << (shift - 1) : 0;
    if (shift > 0 && (rest > half || (rest == half && (digits & 1) != 0))) ++digits;
    if (digits < kPowers[static_cast<size_t>(precision)]) {
      result = {static_cast<uint64_t>(digits), exponent, power, numerator, shift};
      return true;
    }
  }
  return false;
}

// As %g: no trailing zeros; an exponent below -4 or from `precision` on.
void AppendDigits(std::string& out, uint64_t digits, int exponent, int precision) {
  char text[20];
  char* const end = std::to_chars(text, text + sizeof(text), digits).ptr;
  size_t count = static_cast<size_t>(end - text);
  while (count > 1 && text[count - 1] == '0') --count;
  if (exponent < -4 || exponent >= precision) {
    out += text[0];
    if (count > 1) out.append(1, '.').append(text + 1, count - 1);
    out += exponent < 0 ? "e-" : "e+";
    const int magnitude = std::abs(exponent);
    if (magnitude < 10) out += '0';
    char exponent_text[8];
    out.append(exponent_text,
               std::to_chars(exponent_text, exponent_text + sizeof(exponent_text), magnitude).ptr);
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(text, count);
  } else {
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (count <= whole) {
      out.append(text, count).append(whole - count, '0');
    } else {
      out.append(text, whole).append(1, '.').append(text + whole, count - whole);
    }
  }
}

void AppendSlowly(std::string& out, double value, int precision) {
  char text[40];
  out.append(
      text,
      std::to_chars(text, text + sizeof(text), value, std::chars_format::general, precision).ptr);
}

}  // namespace

void AppendGeneral(std::string& out, double value, int precision) {
  Digits first;
  if (!FirstDigits(Split(std::fabs(value)), precision, first)) {
    AppendSlowly(out, value, precision);
    return;
  }
  if (value < 0) out += '-';
  AppendDigits(out, first.digits, first.exponent, precision);
}

void AppendRoundTrip(std::string& out, double value, int mantissa_bits, int few, int enough) {
  const Binary binary = Split(std::fabs(value));
  Digits first;
  if (FirstDigits(binary, few, first)) {
    // The next value of the type is power / 2^free_bits away, in units of numerator.
    const Wide rounded = static_cast<Wide>(first.digits) << first.shift;
    const Wide error =
        rounded > first.numerator ? rounded - first.numerator : first.numerator - rounded;
    const int free_bits = mantissa_bits - (64 - std::countl_zero(binary.mantissa));
    const Wide next = first.power >> std::clamp(free_bits, 0, 64);
    if (error < next >> 2) {
      // Reads back, even next to a power of two, where values are half as far apart below.
      if (value < 0) out += '-';
      AppendDigits(out, first.digits, first.exponent, few);
      return;
    }
    if (error > next + 1) {
      AppendGeneral(out, value, enough);
      return;
    }
  }
  const size_t begin = out.size();
  AppendGeneral(out, value, few);
  double back = 0;
  if (mantissa_bits == 24) {
    float narrow = 0;
    std::from_chars(out.data() + begin, out.data() + out.size(), narrow);
    back = static_cast<double>(narrow);
  } else {
    std::from_chars(out.data() + begin, out.data() + out.size(), back);
  }
  if (back == value) return;
  out.resize(begin);
  AppendGeneral(out, value, enough);
}

}  // namespace gshard
