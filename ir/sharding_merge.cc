// Comparing and combining shardings: sub-tiling, merge, specificity. On axis forms all of it works
// on the common refinement of the device axes and never looks at a device; arrays without one are
// listed.
#include <algorithm>
#include <optional>

#include "ir/device_atoms.h"
#include "ir/device_subsets.h"
#include "ir/diagnostic.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

using AxesByDim = std::vector<std::vector<DeviceAxis>>;

// Two shardings over the same devices, each tile dim as a list of atoms, major first.
struct CommonAtoms {
  DeviceAtoms atoms;
  std::vector<std::vector<int>> a, b;  // per tile dim
};

std::optional<CommonAtoms> Refine(const TileAssignment& a, const TileAssignment& b) {
  const auto axes_a = a.AxesByDim();
  if (!axes_a) return std::nullopt;
  const auto axes_b = b.AxesByDim();
  if (!axes_b) return std::nullopt;
  CommonAtoms common{DeviceAtoms(a.device_count()), {}, {}};
  for (const auto& axes : *axes_a) common.atoms.Cut(axes);
  for (const auto& axes : *axes_b) common.atoms.Cut(axes);
  if (!common.atoms.Finish()) return std::nullopt;
  for (const auto& axes : *axes_a) common.a.push_back(common.atoms.Of(axes));
  for (const auto& axes : *axes_b) common.b.push_back(common.atoms.Of(axes));
  return common;
}

// One dim of the sub-tiling test: sizes of its n elements' tiles in A and B.
struct TilePair {
  int64_t n, a, b;
  TilePair(int64_t size, int64_t count_a, int64_t count_b)
      : n(size), a((size + count_a - 1) / count_a), b((size + count_b - 1) / count_b) {}
  bool Inside(int64_t i, int64_t j) const {
    return a * i >= b * j && (a * i + a <= b * j + b || a * i + a > n);
  }
};

// Whether Inside holds for the tile indices (i, j) of every device, where i and j are the
// mixed-radix numbers of two atom lists.
bool AllInside(const TilePair& pair, const DeviceAtoms& atoms, std::span<const int> list_a,
               std::span<const int> list_b) {
  struct Digit {
    int64_t size, weight_a, weight_b;
  };
  std::vector<Digit> digits;
  int64_t weight = 1;
  for (size_t k = list_a.size(); k-- > 0;) {
    digits.push_back({atoms.size(list_a[k]), weight, 0});
    weight *= atoms.size(list_a[k]);
  }
  weight = 1;
  for (size_t k = list_b.size(); k-- > 0;) {
    const auto shared = std::ranges::find(list_a, list_b[k]);
    if (shared == list_a.end()) {
      digits.push_back({atoms.size(list_b[k]), 0, weight});
    } else {
      digits[static_cast<size_t>(list_a.end() - shared) - 1].weight_b = weight;
    }
    weight *= atoms.size(list_b[k]);
  }
  std::vector<int64_t> value(digits.size(), 0);
  int64_t i = 0, j = 0;
  while (true) {
    if (!pair.Inside(i, j)) return false;
    size_t k = 0;
    for (; k < digits.size(); ++k) {
      i += digits[k].weight_a;
      j += digits[k].weight_b;
      if (++value[k] < digits[k].size) break;
      i -= digits[k].weight_a * digits[k].size;
      j -= digits[k].weight_b * digits[k].size;
      value[k] = 0;
    }
    if (k == digits.size()) return true;
  }
}

bool IsSubTilingByAtoms(const CommonAtoms& common, const Sharding* a, const Sharding* b,
                        const Shape* shape) {
  for (int64_t dim = 0; dim < a->data_rank(); ++dim) {
    const int64_t count_a = a->tiles.dim(dim), count_b = b->tiles.dim(dim);
    const int64_t n = shape->dim(dim);
    if (count_b == 1 || n == 0) continue;
    const std::vector<int>& list_a = common.a[static_cast<size_t>(dim)];
    const std::vector<int>& list_b = common.b[static_cast<size_t>(dim)];
    const bool prefix =
        list_b.size() <= list_a.size() && std::equal(list_b.begin(), list_b.end(), list_a.begin());
    const TilePair pair(n, count_a, count_b);
    if (n % count_a == 0 && n % count_b == 0) {
      // Even tiles nest iff B's index is the major part of A's.
      if (!prefix) return false;
    } else if (!(prefix && pair.a * (count_a / count_b) == pair.b)) {
      if (!AllInside(pair, common.atoms, list_a, list_b)) return false;
    }
  }
  return true;
}

bool IsSubTilingByDevice(const Sharding* a, const Sharding* b, const Shape* shape) {
  for (int64_t device : a->tiles.ToList()) {
    const std::vector<int64_t> at_a = a->tiles.CoordinateOf(device);
    const std::vector<int64_t> at_b = b->tiles.CoordinateOf(device);
    for (int64_t dim = 0; dim < a->data_rank(); ++dim) {
      const TilePair pair(shape->dim(dim), a->tiles.dim(dim), b->tiles.dim(dim));
      const auto i = static_cast<size_t>(dim);
      if (!pair.Inside(at_a[i], at_b[i])) return false;
    }
  }
  return true;
}

bool IsReplicatedOrMaximal(const Sharding* s) { return s->IsReplicated() || s->IsMaximal(); }

// Merged tile dims: counts per data dim, manual, replicas. Nothing if the counts forbid a merge.
struct MergedDims {
  std::vector<int64_t> dims;  // with manual and replicated dims, both possibly 1
  std::vector<SubgroupType> subgroups = {SubgroupType::kManual, SubgroupType::kReplicated};
  int64_t tiles = 1;
};

std::optional<MergedDims> MergeCounts(const Sharding* a, const Sharding* b, int64_t minimum) {
  MergedDims merged;
  for (int64_t dim = 0; dim < a->data_rank(); ++dim) {
    const int64_t count_a = a->tiles.dim(dim), count_b = b->tiles.dim(dim);
    if (count_a != count_b && count_a != 1 && count_b != 1) return std::nullopt;
    merged.dims.push_back(std::max(count_a, count_b));
    // No overflow: the product of two factors of the device count.
    merged.tiles *= merged.dims.back();
  }
  const int64_t manual = a->SubgroupSize(SubgroupType::kManual);
  const int64_t devices = a->device_count();
  if (merged.tiles < minimum || devices % (merged.tiles * manual) != 0) return std::nullopt;
  merged.dims.push_back(manual);
  merged.dims.push_back(devices / (merged.tiles * manual));
  return merged;
}

// The axes of the merged array: each tile dim's from A or B, then what is left, ascending.
std::optional<TileAssignment> MergeByAtoms(const CommonAtoms& common, const Sharding* a,
                                           const Sharding* b, const MergedDims& merged) {
  std::vector<bool> used(static_cast<size_t>(common.atoms.count()), false);
  std::vector<DeviceAxis> axes;
  const auto take = [&](const std::vector<int>& list_a, const std::vector<int>& list_b) {
    if (!list_a.empty() && !list_b.empty() && list_a != list_b) return false;
    for (int atom : list_a.empty() ? list_b : list_a) {
      if (used[static_cast<size_t>(atom)]) return false;
      used[static_cast<size_t>(atom)] = true;
      axes.push_back(common.atoms.axis(atom));
    }
    return true;
  };
  for (int64_t dim = 0; dim < a->data_rank(); ++dim) {
    const auto i = static_cast<size_t>(dim);
    if (!take(common.a[i], common.b[i])) return std::nullopt;
  }
  if (a->HasManualSubgroup()) {
    const auto manual_a = static_cast<size_t>(a->SubgroupDim(SubgroupType::kManual));
    const auto manual_b = static_cast<size_t>(b->SubgroupDim(SubgroupType::kManual));
    if (!take(common.a[manual_a], common.b[manual_b])) return std::nullopt;
  }
  for (int atom = common.atoms.count(); atom-- > 0;) {
    if (!used[static_cast<size_t>(atom)]) axes.push_back(common.atoms.axis(atom));
  }
  return TileAssignment::FromAxes(merged.dims, std::move(axes));
}

std::optional<TileAssignment> MergeByDevice(const Sharding* a, const Sharding* b,
                                            const MergedDims& merged) {
  const auto data_rank = static_cast<size_t>(a->data_rank());
  const int64_t manual_a = a->SubgroupDim(SubgroupType::kManual);
  const int64_t manual_b = b->SubgroupDim(SubgroupType::kManual);
  const int64_t replicas = merged.dims.back();
  const int64_t devices = a->device_count();
  std::vector<int64_t> ascending = a->tiles.ToList();
  std::ranges::sort(ascending);
  std::vector<int64_t> members(static_cast<size_t>(devices / replicas), 0);
  std::vector<int64_t> list(static_cast<size_t>(devices), 0);
  for (int64_t device : ascending) {
    const std::vector<int64_t> at_a = a->tiles.CoordinateOf(device);
    const std::vector<int64_t> at_b = b->tiles.CoordinateOf(device);
    int64_t tile = 0;
    for (size_t i = 0; i < data_rank; ++i) {
      const bool in_both = a->tiles.dims()[i] > 1 && b->tiles.dims()[i] > 1;
      if (in_both && at_a[i] != at_b[i]) return std::nullopt;
      tile = tile * merged.dims[i] + (a->tiles.dims()[i] > 1 ? at_a[i] : at_b[i]);
    }
    if (manual_a >= 0) {
      const int64_t group = at_a[static_cast<size_t>(manual_a)];
      if (group != at_b[static_cast<size_t>(manual_b)]) return std::nullopt;
      tile = tile * merged.dims[data_rank] + group;
    }
    int64_t& count = members[static_cast<size_t>(tile)];
    if (count == replicas) return std::nullopt;
    list[static_cast<size_t>(tile * replicas + count++)] = device;
  }
  return TileAssignment::List(merged.dims, std::move(list));
}

// Subgroups that merge: manual and replicated only.
bool Mergeable(const Sharding* s) {
  return s->IsTiled() && s->SubgroupDim(SubgroupType::kUnreduced) < 0 &&
         s->SubgroupDim(SubgroupType::kMaximal) < 0;
}

bool IsLeafMoreSpecific(const Sharding* a, const Sharding* b) {
  if (a->IsManual() || b->IsManual()) return a->IsManual() && IsReplicatedOrMaximal(b);
  switch (b->kind) {
    case ShardingKind::kTiled:
      return a->TileCount() > b->TileCount();
    case ShardingKind::kReplicated:
    case ShardingKind::kUnknown:
      return !a->IsReplicated() && !a->IsUnknown();
    case ShardingKind::kMaximal:
      return a->IsTiled();
    case ShardingKind::kManual:
    case ShardingKind::kUnreduced:
    case ShardingKind::kTuple:
      break;
  }
  return false;
}

}  // namespace

bool IsSubTiling(const Sharding* a, const Sharding* b, const Shape* shape) {
  if (IsReplicatedOrMaximal(b)) return true;
  if (!a->IsTiled() || !b->IsTiled()) return false;
  if (a->canonical == b->canonical) return true;
  if (a->data_rank() != b->data_rank() || !HaveSameDevices(a->tiles, b->tiles)) return false;
  CheckInternal(shape->rank() == a->data_rank(), "the rank of a sharding differs from its shape");
  for (int64_t dim = 0; dim < a->data_rank(); ++dim) {
    if (a->tiles.dim(dim) < b->tiles.dim(dim)) return false;
  }
  if (const auto common = Refine(a->tiles, b->tiles))
    return IsSubTilingByAtoms(*common, a, b, shape);
  return IsSubTilingByDevice(a, b, shape);
}

const Sharding* MergeShardings(Context& ctx, const Sharding* a, const Sharding* b,
                               int64_t minimum_tiles) {
  if (IsReplicatedOrMaximal(a)) return nullptr;
  if (IsReplicatedOrMaximal(b)) return a->IsTiled() ? a->canonical : nullptr;
  if (!Mergeable(a) || !Mergeable(b) || !b->IsPartiallyReplicated()) return nullptr;
  if (a->data_rank() != b->data_rank() || !HaveSameDevices(a->tiles, b->tiles) ||
      a->SubgroupSize(SubgroupType::kManual) != b->SubgroupSize(SubgroupType::kManual)) {
    return nullptr;
  }
  const int64_t minimum = minimum_tiles > 0 ? minimum_tiles : b->TileCount() + 1;
  const auto merged = MergeCounts(a, b, minimum);
  if (!merged) return nullptr;
  const auto common = Refine(a->tiles, b->tiles);
  auto tiles = common ? MergeByAtoms(*common, a, b, *merged) : MergeByDevice(a, b, *merged);
  if (!tiles) return nullptr;
  return ctx.Tiled(std::move(*tiles), merged->subgroups);
}

const Sharding* CommonSharding(Context& ctx, std::span<const Sharding* const> list,
                               const Sharding* fallback) {
  if (list.empty()) return fallback;
  const Sharding* common = list[0]->canonical;
  for (const Sharding* next : list.subspan(1)) {
    if (SameSharding(next, common)) continue;
    common = MergeShardings(ctx, next, common, common->TileCount());
    if (common == nullptr) return fallback != nullptr ? fallback : list[0]->canonical;
  }
  return common;
}

bool IsMoreSpecific(const Sharding* a, const Sharding* b) {
  if (!a->IsTuple() && !b->IsTuple()) return IsLeafMoreSpecific(a, b);
  if (!a->IsTuple() || !b->IsTuple() || a->elements.size() != b->elements.size()) return false;
  bool better = false;
  for (size_t i = 0; i < a->elements.size(); ++i) {
    if (a->elements[i]->canonical == b->elements[i]->canonical) continue;
    if (IsLeafMoreSpecific(b->elements[i], a->elements[i])) return false;
    better = better || IsLeafMoreSpecific(a->elements[i], b->elements[i]);
  }
  return better;
}

}  // namespace gshard
