#include "backends/cpu/run/finite_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

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

// Of a float or complex array.
bool IsNanAt(const CheckedArray& array, int64_t element) {
  DType part = array.shape->dtype();
  const int64_t parts = IsComplex(part) ? 2 : 1;
  if (parts == 2) part = part == DType::kC64 ? DType::kF32 : DType::kF64;
  const int64_t bytes = StorageBytes(part);
  for (int64_t i = element * parts; i < (element + 1) * parts; ++i) {
    if (std::isnan(Load(part, array.data + i * bytes))) return true;
  }
  return false;
}

}  // namespace

std::optional<NotFinite> FindNewNan(const CheckedArray& result,
                                    std::span<const CheckedArray> operands, bool elementwise) {
  const auto first = FindNotFinite(result.shape, result.data);
  if (!first || !first->is_nan) return std::nullopt;
  std::vector<CheckedArray> with_nan;
  for (const CheckedArray& operand : operands) {
    const auto found = FindNotFinite(operand.shape, operand.data);
    if (found && found->is_nan) with_nan.push_back(operand);
  }
  if (with_nan.empty()) return first;
  if (!elementwise) return std::nullopt;
  for (int64_t i = first->element; i < result.shape->element_count(); ++i) {
    if (!IsNanAt(result, i)) continue;
    const bool came_in = std::ranges::any_of(with_nan, [&](const CheckedArray& operand) {
      return IsNanAt(operand, operand.shape->rank() == 0 ? 0 : i);
    });
    if (!came_in) return NotFinite{i, true};
  }
  return std::nullopt;
}

std::string IndexText(const Shape* shape, int64_t element) {
  std::string index;
  for (int64_t d = shape->rank() - 1; d >= 0; --d) {
    index = fmt::format("{}{}{}", element % shape->dim(d), index.empty() ? "" : ",", index);
    element /= shape->dim(d);
  }
  return index;
}

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
