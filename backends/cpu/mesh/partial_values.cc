// One accessor a type, three reductions.
#include "backends/cpu/mesh/partial_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ir/diagnostic.h"
#include "ir/literal.h"

namespace gshard::cpu {
namespace {

// Elements of a type as numbers that are reduced: doubles for floats.
template <typename T>
struct Native {
  using Number = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  Number Load(const std::byte* data, int64_t i) const {
    T value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof value);
    return static_cast<Number>(value);
  }
  void Store(std::byte* data, int64_t i, Number number) const {
    const T value = static_cast<T>(number);
    std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
  }
};
struct SmallFloat {
  using Number = double;
  DType dtype;
  int64_t bytes;
  Number Load(const std::byte* data, int64_t i) const {
    uint16_t bits = 0;
    std::memcpy(&bits, data + i * bytes, static_cast<size_t>(bytes));
    return DecodeSmallFloat(dtype, bits);
  }
  void Store(std::byte* data, int64_t i, Number number) const {
    const uint16_t bits = EncodeSmallFloat(dtype, number);
    std::memcpy(data + i * bytes, &bits, static_cast<size_t>(bytes));
  }
};

// visit(accessor, numbers in an element).
template <typename Visit>
void WithAccessor(DType dtype, Visit visit) {
  const int bytes = StorageBytes(dtype);
  if (dtype == DType::kF32) return visit(Native<float>(), 1);
  if (dtype == DType::kF64) return visit(Native<double>(), 1);
  if (dtype == DType::kC64) return visit(Native<float>(), 2);
  if (dtype == DType::kC128) return visit(Native<double>(), 2);
  if (IsFloat(dtype)) return visit(SmallFloat{dtype, bytes}, 1);
  if (ClassOf(dtype) == DTypeClass::kSigned) {
    if (bytes == 1) return visit(Native<int8_t>(), 1);
    if (bytes == 2) return visit(Native<int16_t>(), 1);
    if (bytes == 4) return visit(Native<int32_t>(), 1);
    return visit(Native<int64_t>(), 1);
  }
  if (bytes == 1) return visit(Native<uint8_t>(), 1);
  if (bytes == 2) return visit(Native<uint16_t>(), 1);
  if (bytes == 4) return visit(Native<uint32_t>(), 1);
  visit(Native<uint64_t>(), 1);
}

template <typename Number>
Number Reduce(ReductionKind reduction, Number a, Number b) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Number>::quiet_NaN();
  }
  switch (reduction) {
    case ReductionKind::kMax:
      return std::max(a, b);
    case ReductionKind::kMin:
      return std::min(a, b);
    case ReductionKind::kSum:
      break;
  }
  if constexpr (std::is_integral_v<Number>) {
    return static_cast<Number>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

// Sums of truth values are disjunctions.
ReductionKind EffectiveReduction(DType dtype, ReductionKind reduction) {
  return dtype == DType::kPred && reduction == ReductionKind::kSum ? ReductionKind::kMax
                                                                   : reduction;
}

template <typename Number>
Number PartOfSum(Number whole, int64_t place) {
  if (place >= kDistinctPlaces) return 0;
  if constexpr (std::is_integral_v<Number>) {
    const auto half = static_cast<Number>(whole / 2);
    return place == 0 ? static_cast<Number>(whole - half) : half;
  } else {
    return whole / 2;
  }
}

// What changes nothing in a maximum (minimum).
template <typename Number>
Number Extreme(ReductionKind reduction) {
  using Limits = std::numeric_limits<Number>;
  if constexpr (std::is_floating_point_v<Number>) {
    return reduction == ReductionKind::kMax ? -Limits::infinity() : Limits::infinity();
  }
  return reduction == ReductionKind::kMax ? Limits::lowest() : Limits::max();
}

}  // namespace

bool IsPartial(const Sharding* sharding) {
  return sharding != nullptr &&
         (sharding->IsUnreduced() ||
          (sharding->IsTiled() && sharding->SubgroupDim(SubgroupType::kUnreduced) >= 0));
}

std::vector<uint32_t> PartialGroup(const Sharding* sharding, uint32_t partition,
                                   uint32_t partitions) {
  std::vector<uint32_t> group;
  if (sharding->IsUnreduced()) {
    for (uint32_t p = 0; p < partitions; ++p) group.push_back(p);
    return group;
  }
  std::vector<int64_t> coordinate = sharding->tiles.CoordinateOf(partition);
  const auto dim = static_cast<size_t>(sharding->SubgroupDim(SubgroupType::kUnreduced));
  for (int64_t i = 0; i < sharding->SubgroupSize(SubgroupType::kUnreduced); ++i) {
    coordinate[dim] = i;
    group.push_back(static_cast<uint32_t>(sharding->tiles.DeviceAt(coordinate)));
  }
  return group;
}

int64_t PartialPlace(const Sharding* sharding, uint32_t partition) {
  if (sharding->IsUnreduced()) return partition;
  const auto dim = static_cast<size_t>(sharding->SubgroupDim(SubgroupType::kUnreduced));
  return sharding->tiles.CoordinateOf(partition)[dim];
}

void MakePartial(DType dtype, ReductionKind reduction, int64_t place, int64_t count,
                 std::byte* data) {
  reduction = EffectiveReduction(dtype, reduction);
  const bool sum = reduction == ReductionKind::kSum;
  const bool small = IsFloat(dtype) && StorageBytes(dtype) == 1;
  if (small && (!sum || place == 0)) return;  // neither halves nor infinities are to be had
  if (!sum && place == 0) return;
  WithAccessor(dtype, [&](auto accessor, int64_t numbers) {
    using Number = typename decltype(accessor)::Number;
    for (int64_t i = 0; i < count * numbers; ++i) {
      Number part = 0;
      if (!sum) {
        part = dtype == DType::kPred ? Number(reduction == ReductionKind::kMin)
                                     : Extreme<Number>(reduction);
      } else if (!small) {
        part = PartOfSum(accessor.Load(data, i), place);
      }
      accessor.Store(data, i, part);
    }
  });
}

void CombineParts(DType dtype, ReductionKind reduction, std::span<const std::byte* const> parts,
                  int64_t count, std::byte* out) {
  reduction = EffectiveReduction(dtype, reduction);
  WithAccessor(dtype, [&](auto accessor, int64_t numbers) {
    for (int64_t i = 0; i < count * numbers; ++i) {
      auto value = accessor.Load(parts[0], i);
      for (size_t p = 1; p < parts.size(); ++p) {
        value = Reduce(reduction, value, accessor.Load(parts[p], i));
      }
      accessor.Store(out, i, value);
    }
  });
}

}  // namespace gshard::cpu
