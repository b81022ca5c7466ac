#include "backends/cpu/run/finite_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/literal.h"

namespace gshard::cpu {
namespace {

double Load(DType dtype, const std::byte* data) {
  switch (dtype) {
    case DType::kF32: {
      float value = 0;
      std::memcpy(&value, data, sizeof value);
      return static_cast<double>(value);
    }
    case DType::kF64: {
      double value = 0;
      std::memcpy(&value, data, sizeof value);
      return value;
    }
    default: {
      uint16_t bits = 0;
      std::memcpy(&bits, data, static_cast<size_t>(std::min(StorageBytes(dtype), 2)));
      return DecodeSmallFloat(dtype, bits);
    }
  }
}

}  // namespace

std::optional<NotFinite> FindNotFinite(const Shape* shape, const std::byte* data) {
  if (!shape->IsArray()) return std::nullopt;
  DType part = shape->dtype();
  int64_t parts = 1;
  if (IsComplex(part)) {
    part = part == DType::kC64 ? DType::kF32 : DType::kF64;
    parts = 2;
  } else if (!IsFloat(part)) {
    return std::nullopt;
  }
  const int64_t bytes = StorageBytes(part);
  std::optional<NotFinite> found;
  for (int64_t i = 0; i < shape->element_count() * parts; ++i) {
    const double value = Load(part, data + i * bytes);
    if (std::isnan(value)) return NotFinite{i / parts, true};
    if (std::isinf(value) && !found) found = NotFinite{i / parts, false};
  }
  return found;
}

}  // namespace gshard::cpu
