#include "backends/cpu/element_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

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

// |a - b|; NaN equals NaN, infinities equal themselves, anything else non-finite is infinitely far.
double ErrorOf(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double error = std::fabs(a - b);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
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

double LargestMagnitude(DType dtype, std::span<const std::byte> data) {
  const auto count = static_cast<int64_t>(data.size()) / StorageBytes(dtype);
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    if (IsFloat(dtype)) {
      value = std::fabs(ReadDouble(dtype, data.data(), i));
    } else if (IsComplex(dtype)) {
      value = std::abs(ReadComplex(dtype, data.data(), i));
    } else {
      return 1;
    }
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

double UnitInLastPlace(DType dtype, double magnitude) {
  if (!IsFloat(dtype) && !IsComplex(dtype)) return 1;
  if (!(magnitude > 0) || !std::isfinite(magnitude)) magnitude = 0x1p-126;
  return std::ldexp(1.0, std::ilogb(magnitude) - MantissaBits(dtype));
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
