#include "ir/sharding.h"

#include <algorithm>
#include <numeric>

#include "ir/diagnostic.h"

namespace gshard {
namespace {

ShardingKind KindOf(SubgroupType type) {
  switch (type) {
    case SubgroupType::kManual:
      return ShardingKind::kManual;
    case SubgroupType::kUnreduced:
      return ShardingKind::kUnreduced;
    case SubgroupType::kReplicated:
      return ShardingKind::kReplicated;
    case SubgroupType::kMaximal:
      break;
  }
  return ShardingKind::kTiled;
}

void BecomeUntiled(Sharding& s, ShardingKind kind) {
  s.kind = kind;
  s.tiles = TileAssignment();
  s.subgroups.clear();
}

// Orders subgroup dims by type, merges dims of one type (first written is major), drops size 1.
void ArrangeSubgroups(Sharding& s) {
  const auto data_rank = static_cast<size_t>(s.data_rank());
  const bool in_order = std::ranges::is_sorted(s.subgroups);
  std::vector<size_t> order(s.subgroups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!in_order) std::ranges::stable_sort(order, {}, [&s](size_t i) { return s.subgroups[i]; });

  std::vector<int64_t> dims(s.data_dims().begin(), s.data_dims().end());
  std::vector<SubgroupType> types;
  for (const size_t i : order) {
    const int64_t size = s.tiles.dims()[data_rank + i];
    if (size == 1) continue;
    if (!types.empty() && types.back() == s.subgroups[i]) {
      dims.back() *= size;
    } else {
      types.push_back(s.subgroups[i]);
      dims.push_back(size);
    }
  }
  if (types == s.subgroups) return;
  if (!in_order) {
    // The data dims count as one here: how they cut the array does not matter.
    std::vector<int64_t> one_data_dim = {s.TileCount()};
    std::vector<int64_t> permutation = {0};
    for (size_t i = 0; i < order.size(); ++i) {
      one_data_dim.push_back(s.tiles.dims()[data_rank + i]);
      permutation.push_back(static_cast<int64_t>(order[i]) + 1);
    }
    s.tiles = s.tiles.Reshape(one_data_dim).Transpose(permutation);
  }
  s.tiles = s.tiles.Reshape(dims);
  s.subgroups = std::move(types);
}

}  // namespace

int64_t Sharding::SubgroupDim(SubgroupType type) const {
  for (size_t i = 0; i < subgroups.size(); ++i) {
    if (subgroups[i] == type) return data_rank() + static_cast<int64_t>(i);
  }
  return -1;
}

int64_t Sharding::SubgroupSize(SubgroupType type) const {
  const int64_t dim = SubgroupDim(type);
  return dim < 0 ? 1 : tiles.dim(dim);
}

int64_t Sharding::TileCount() const {
  if (!IsTiled()) return 1;
  int64_t count = 1;
  for (int64_t dim : data_dims()) count *= dim;
  return count;
}

void Normalise(Sharding& s) {
  if (s.IsTiled()) {
    CheckInternal(s.data_rank() >= 0, "more subgroup types than tile dims");
    const bool had_subgroups = !s.subgroups.empty();
    const bool untiled = s.TileCount() == 1;
    const auto all_equal = [&s] {
      return !s.subgroups.empty() &&
             std::ranges::count(s.subgroups, s.subgroups.front()) == std::ssize(s.subgroups) &&
             s.subgroups.front() != SubgroupType::kMaximal;
    };
    if (untiled && all_equal()) {
      BecomeUntiled(s, KindOf(s.subgroups.front()));
    } else if (had_subgroups) {
      ArrangeSubgroups(s);
      if (untiled && s.subgroups.empty()) {
        BecomeUntiled(s, ShardingKind::kReplicated);
      } else if (untiled && all_equal()) {
        BecomeUntiled(s, KindOf(s.subgroups.front()));
      } else if (s.IsPartiallyReplicated()) {
        s.tiles = s.tiles.SortLastDim();
      }
    } else if (s.data_rank() == 0) {
      BecomeUntiled(s, ShardingKind::kReplicated);  // a scalar on one device
    }
  } else {
    BecomeUntiled(s, s.kind);
  }
  if (!s.IsMaximal()) s.device = 0;
  if (!s.IsTuple()) s.elements.clear();
  if (!s.IsUnreduced() && s.SubgroupDim(SubgroupType::kUnreduced) < 0) {
    s.reduction = ReductionKind::kSum;
  }
}

}  // namespace gshard
