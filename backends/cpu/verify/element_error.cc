#include "backends/cpu/verify/element_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/compare_bits.h"
#include "ir/literal.h"

namespace gshard::cpu {
namespace {

double ReadDouble(DType dtype, const std::byte* data, int64_t index) {
  const int bytes = StorageBytes(dtype);
  const std::byte* at = data + index * bytes;
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  if (dtype == DType::kF64) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(std::min(bytes, 2)));
  return DecodeSmallFloat(dtype, bits);
}

std::complex<double> ReadComplex(DType dtype, const std::byte* data, int64_t index) {
  if (dtype == DType::kC64) {
    return {ReadDouble(DType::kF32, data, 2 * index), ReadDouble(DType::kF32, data, 2 * index + 1)};
  }
  return {ReadDouble(DType::kF64, data, 2 * index), ReadDouble(DType::kF64, data, 2 * index + 1)};
}

int64_t ReadInteger(DType dtype, const std::byte* data, int64_t index) {
  const int bytes = StorageBytes(dtype);
  int64_t value = 0;
  std::memcpy(&value, data + index * bytes, static_cast<size_t>(bytes));
  const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
  const int shift = 64 - 8 * bytes;
  if (shift > 0) {
    const auto moved = static_cast<uint64_t>(value) << shift;
    value = is_signed ? static_cast<int64_t>(moved) >> shift : static_cast<int64_t>(moved >> shift);
  }
  return value;
}

bool IsNan(std::complex<double> x) { return std::isnan(x.real()) || std::isnan(x.imag()); }

// |a - b|; NaN equals NaN, infinities equal themselves, anything else non-finite is infinitely far.
double ErrorOf(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double error = std::fabs(a - b);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

// Floats whose distances can be bounded many at a time. Magnitudes order as their bits do, with NaN
// above infinity above all numbers.
template <typename Bits>
struct FastFloat;
template <>
struct FastFloat<uint16_t> {  // bf16
  static float Decode(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
template <>
struct FastFloat<uint32_t> {
  static float Decode(uint32_t bits) { return std::bit_cast<float>(bits); }
};
template <>
struct FastFloat<uint64_t> {
  static double Decode(uint64_t bits) { return std::bit_cast<double>(bits); }
};

constexpr int64_t kBlock = 512;

// The largest |a - b| of a block.
float LargestDistanceOfBf16(const std::byte* a, const std::byte* b, int64_t count) {
  // Signed: with the sign bit gone all are positive, and such maxima are cheaper.
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t x = 0, y = 0;
    std::memcpy(&x, a + i * 2, sizeof x);
    std::memcpy(&y, b + i * 2, sizeof y);
    const float difference = FastFloat<uint16_t>::Decode(x) - FastFloat<uint16_t>::Decode(y);
    const int32_t distance = std::bit_cast<int32_t>(difference) & INT32_MAX;
    largest = distance > largest ? distance : largest;
  }
  return std::bit_cast<float>(largest);
}

template <typename Float>
double LargestDistanceOf(const std::byte* a, const std::byte* b, int64_t count) {
  return static_cast<double>(
      LargestDistance(reinterpret_cast<const Float*>(a), reinterpret_cast<const Float*>(b), count));
}

// Distances above are rounded: a bound of the exact ones.
constexpr double kSlack = 1 + 0x1p-20;

// At least the largest distance of a block, roundings considered; NaN if anything is not finite.
double DistanceBound(DType dtype, const std::byte* a, const std::byte* b, int64_t count) {
  switch (dtype) {
    case DType::kBF16:
      return static_cast<double>(LargestDistanceOfBf16(a, b, count)) * kSlack;
    case DType::kF32:
      return LargestDistanceOf<float>(a, b, count) * kSlack;
    case DType::kF64:
      return LargestDistanceOf<double>(a, b, count) * kSlack;
    case DType::kC64:
      return LargestDistanceOf<float>(a, b, 2 * count) * kSlack;
    case DType::kC128:
      return LargestDistanceOf<double>(a, b, 2 * count) * kSlack;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

// visit(i) for the elements whose distance may be above `least`: that differ, and not by less.
template <typename Bits, typename Visit>
void ForEachFar(const std::byte* a, const std::byte* b, int64_t count, double least, Visit visit) {
  for (int64_t i = 0; i < count; ++i) {
    Bits x = 0, y = 0;
    std::memcpy(&x, a + i * static_cast<int64_t>(sizeof(Bits)), sizeof x);
    std::memcpy(&y, b + i * static_cast<int64_t>(sizeof(Bits)), sizeof y);
    if (x == y) continue;
    const auto distance = std::fabs(FastFloat<Bits>::Decode(x) - FastFloat<Bits>::Decode(y));
    if (static_cast<double>(distance) * kSlack <= least) continue;
    visit(i);
  }
}

template <typename Visit>
void ForEachFar(DType dtype, const std::byte* a, const std::byte* b, int64_t count, double least,
                Visit visit) {
  switch (dtype) {
    case DType::kBF16:
      return ForEachFar<uint16_t>(a, b, count, least, visit);
    case DType::kF32:
      return ForEachFar<uint32_t>(a, b, count, least, visit);
    case DType::kF64:
      return ForEachFar<uint64_t>(a, b, count, least, visit);
    default:
      for (int64_t i = 0; i < count; ++i) visit(i);
  }
}

// Magnitudes that order as their bits do: those of infinity; 0: the type has none, or parts.
uint64_t InfinityBits(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x7c00;
    case DType::kBF16:
      return 0x7f80;
    case DType::kF32:
      return 0x7f800000;
    case DType::kF64:
      return 0x7ff0000000000000;
    default:
      return 0;
  }
}

// Bits of the significand behind the point.
int MantissaBits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return 52;
    case DType::kF32:
    case DType::kC64:
      return 23;
    case DType::kF16:
      return 10;
    case DType::kBF16:
      return 7;
    case DType::kF8E3M4:
      return 4;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF6E3M2FN:
      return 2;
    case DType::kF4E2M1FN:
      return 1;
    case DType::kF8E8M0FNU:
      return 0;
    default:
      return 3;
  }
}

}  // namespace

double ElementError(DType dtype, const std::byte* a, int64_t i, const std::byte* b, int64_t j) {
  if (IsFloat(dtype)) return ErrorOf(ReadDouble(dtype, a, i), ReadDouble(dtype, b, j));
  if (IsComplex(dtype)) {
    const std::complex<double> x = ReadComplex(dtype, a, i), y = ReadComplex(dtype, b, j);
    if (IsNan(x) && IsNan(y)) return 0;
    return std::max(ErrorOf(x.real(), y.real()), ErrorOf(x.imag(), y.imag()));
  }
  const int64_t x = ReadInteger(dtype, a, i), y = ReadInteger(dtype, b, j);
  if (x == y) return 0;
  return std::max(std::fabs(static_cast<double>(x) - static_cast<double>(y)), 1.0);
}

std::string FormatElement(DType dtype, const std::byte* data, int64_t index) {
  if (IsFloat(dtype)) return fmt::format("{:.9g}", ReadDouble(dtype, data, index));
  if (IsComplex(dtype)) {
    const std::complex<double> value = ReadComplex(dtype, data, index);
    return fmt::format("({:.9g}, {:.9g})", value.real(), value.imag());
  }
  return fmt::format("{}", ReadInteger(dtype, data, index));
}

ArraysLook LookAtArrays(DType dtype, const std::byte* a, const std::byte* b, int64_t count) {
  const int bytes = StorageBytes(dtype);
  if (const uint64_t infinity = InfinityBits(dtype); infinity != 0) {
    const BitsLook look = LookAtBits(a, b, count, bytes, infinity);
    std::array<std::byte, sizeof look.largest> largest{};
    std::memcpy(largest.data(), &look.largest, largest.size());
    return {ReadDouble(dtype, largest.data(), 0), look.differs};
  }
  const auto length = static_cast<size_t>(count * bytes);
  return {LargestMagnitude(dtype, {a, length}), std::memcmp(a, b, length) != 0};
}

double LargestMagnitude(DType dtype, std::span<const std::byte> data) {
  if (!IsFloat(dtype) && !IsComplex(dtype)) return 1;
  const auto count = static_cast<int64_t>(data.size()) / StorageBytes(dtype);
  if (InfinityBits(dtype) != 0)
    return LookAtArrays(dtype, data.data(), data.data(), count).magnitude;
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = IsFloat(dtype) ? std::fabs(ReadDouble(dtype, data.data(), i))
                                        : std::abs(ReadComplex(dtype, data.data(), i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

int64_t CountNan(DType dtype, std::span<const std::byte> data) {
  if (!IsFloat(dtype) && !IsComplex(dtype)) return 0;
  const int64_t bytes = StorageBytes(dtype);
  const auto count = static_cast<int64_t>(data.size()) / bytes;
  int64_t found = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const std::byte* block = data.data() + begin * bytes;
    if (!std::isnan(DistanceBound(dtype, block, block, length))) continue;
    for (int64_t i = 0; i < length; ++i) {
      found += IsFloat(dtype) ? std::isnan(ReadDouble(dtype, block, i))
                              : IsNan(ReadComplex(dtype, block, i));
    }
  }
  return found;
}

void CompareRow(DType dtype, const std::byte* a, const std::byte* b, int64_t count, double allowed,
                int64_t first, RowError& error) {
  const int64_t bytes = StorageBytes(dtype);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    const std::byte *x = a + begin * bytes, *y = b + begin * bytes;
    if (std::memcmp(x, y, static_cast<size_t>((end - begin) * bytes)) == 0) continue;
    const double bound = DistanceBound(dtype, x, y, end - begin);
    double least = std::min(allowed, error.largest);
    if (bound <= least) continue;
    // Of a block within the tolerance only what is about its largest matters.
    if (bound <= allowed) least = std::max(least, bound * (1 - 0x1p-18));
    ForEachFar(dtype, x, y, end - begin, least, [&](int64_t i) {
      const double distance = ElementError(dtype, x, i, y, i);
      if (distance > allowed) ++error.beyond;
      if (distance <= error.largest) return;
      error.largest = distance;
      error.at = first + begin + i;
    });
  }
}

void CompareRowInUlps(DType dtype, const std::byte* a, const std::byte* b, int64_t count,
                      double ulps, RowError& error) {
  const int64_t bytes = StorageBytes(dtype);
  // Below it lie numbers without all their digits, or none at all.
  const double smallest = dtype == DType::kF16 ? 0x1p-24 : 0x1p-100;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    const auto length = static_cast<size_t>((end - begin) * bytes);
    if (std::memcmp(a + begin * bytes, b + begin * bytes, length) == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      const double distance = ElementError(dtype, a, i, b, i);
      if (distance == 0) continue;
      const double magnitude =
          std::max(ElementMagnitude(dtype, a, i), ElementMagnitude(dtype, b, i));
      const double unit = std::max(UnitInLastPlace(dtype, magnitude), smallest);
      if (!(distance <= ulps * unit)) ++error.beyond;
      if (distance <= error.largest) continue;
      error.largest = distance;
      error.at = i;
    }
  }
}

double UnitInLastPlace(DType dtype, double magnitude) {
  if (!IsFloat(dtype) && !IsComplex(dtype)) return 1;
  if (!(magnitude > 0) || !std::isfinite(magnitude)) magnitude = 0x1p-126;
  return std::ldexp(1.0, std::ilogb(magnitude) - MantissaBits(dtype));
}

double ElementValue(DType dtype, const std::byte* data, int64_t index) {
  if (IsFloat(dtype)) return ReadDouble(dtype, data, index);
  if (IsComplex(dtype)) return ReadComplex(dtype, data, index).real();
  return static_cast<double>(ReadInteger(dtype, data, index));
}

double ElementMagnitude(DType dtype, const std::byte* data, int64_t index) {
  if (IsFloat(dtype)) return std::fabs(ReadDouble(dtype, data, index));
  if (IsComplex(dtype)) return std::abs(ReadComplex(dtype, data, index));
  return std::fabs(static_cast<double>(ReadInteger(dtype, data, index)));
}

std::vector<int64_t> IndexOf(int64_t flat, std::span<const int64_t> dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    index[i] = flat % dims[i];
    flat /= dims[i];
  }
  return index;
}

}  // namespace gshard::cpu
