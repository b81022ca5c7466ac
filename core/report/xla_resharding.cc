#include "core/report/xla_resharding.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gshard {
namespace {

// Tiles of each data dim, and how many devices hold each tile.
struct TileCounts {
  std::vector<int64_t> dims;
  int64_t copies = 1;

  bool IsWhole() const {
    return std::ranges::all_of(dims, [](int64_t n) { return n == 1; });
  }
  TileCounts With(size_t dim, int64_t tiles, int64_t new_copies) const {
    TileCounts changed = *this;
    changed.dims[dim] = tiles;
    changed.copies = new_copies;
    return changed;
  }
  // A dim of X*Y tiles seen as two, of X and of Y.
  TileCounts Split(size_t dim, int64_t major, int64_t minor) const {
    TileCounts changed = *this;
    changed.dims[dim] = major;
    changed.dims.insert(changed.dims.begin() + static_cast<std::ptrdiff_t>(dim) + 1, minor);
    return changed;
  }
};

// Every dim of `fine` has a multiple of the tiles of `coarse`.
bool Refines(const TileCounts& fine, const TileCounts& coarse) {
  return std::ranges::equal(fine.dims, coarse.dims,
                            [](int64_t f, int64_t c) { return f % c == 0; });
}

// All-to-alls: the dims that differ have the same numbers of tiles, in another order.
bool ArePermuted(const TileCounts& has, const TileCounts& wants) {
  std::vector<int64_t> before, after;
  for (size_t i = 0; i < has.dims.size(); ++i) {
    if (has.dims[i] == wants.dims[i]) continue;
    before.push_back(has.dims[i]);
    after.push_back(wants.dims[i]);
  }
  std::ranges::sort(before);
  std::ranges::sort(after);
  return before == after;
}

// [a.., b] to [1, a..] with b copies: all-to-alls to the next dim, and an all-gather of the last.
bool AreShifted(const TileCounts& tiles, const TileCounts& copied) {
  if (tiles.copies != 1 || copied.copies != tiles.dims.back() || copied.dims.front() != 1)
    return false;
  return std::equal(tiles.dims.begin(), tiles.dims.end() - 1, copied.dims.begin() + 1);
}

constexpr int kMaxDepth = 5;

bool KeepsTiles(const TileCounts& has, const TileCounts& wants, bool may_split, int depth);

// A dim of X*Y tiles on one side is X on the other, which has the Y elsewhere.
bool KeepsTilesSplit(const TileCounts& has, const TileCounts& wants, int depth) {
  for (size_t i = 0; i < has.dims.size(); ++i) {
    const int64_t before = has.dims[i], after = wants.dims[i];
    const int64_t few = std::min(before, after), many = std::max(before, after);
    if (few == many || many % few != 0) continue;
    if (KeepsTiles(has.Split(i, few, before / few), wants.Split(i, few, after / few),
                   /*may_split=*/false, depth)) {
      return true;
    }
  }
  return false;
}

bool KeepsTiles(const TileCounts& has, const TileCounts& wants, bool may_split, int depth) {
  if (has.IsWhole() || wants.IsWhole()) return true;
  if (has.dims == wants.dims) return has.copies == wants.copies;
  if (has.copies == wants.copies && ArePermuted(has, wants)) return true;
  if (has.copies > 1 && Refines(wants, has)) return true;
  if (wants.copies > 1 && Refines(has, wants)) return true;
  if (AreShifted(has, wants) || AreShifted(wants, has)) return true;
  if (depth == kMaxDepth) return false;
  if (may_split && has.copies == wants.copies && KeepsTilesSplit(has, wants, depth + 1)) {
    return true;
  }
  TileCounts rest_has = has, rest_wants = wants;
  for (size_t i = 0; i < has.dims.size(); ++i) {
    // One dim is made whole, and then there are as many copies as are wanted.
    if (wants.copies > 1 && has.dims[i] > 1 && has.dims[i] * has.copies == wants.copies &&
        KeepsTiles(has.With(i, 1, wants.copies), wants, true, depth + 1)) {
      return true;
    }
    // All copies cut a dim that is whole.
    if (has.copies > 1 && wants.copies == 1 && has.dims[i] == 1 &&
        wants.dims[i] % has.copies == 0 &&
        KeepsTiles(has.With(i, has.copies, 1), wants, true, depth + 1)) {
      return true;
    }
    if (has.dims[i] == wants.dims[i]) rest_has.dims[i] = rest_wants.dims[i] = 1;
  }
  // Within groups that have equal dims in common.
  return rest_has.dims != has.dims && !rest_has.IsWhole() && !rest_wants.IsWhole() &&
         KeepsTiles(rest_has, rest_wants, true, depth + 1);
}

bool ReadTileCounts(const Sharding* sharding, TileCounts& tiles) {
  if (sharding == nullptr || !sharding->IsTiled()) return false;
  tiles.dims.clear();
  for (int64_t dim = 0; dim < sharding->data_rank(); ++dim) {
    tiles.dims.push_back(sharding->tiles.dim(dim));
  }
  tiles.copies = sharding->SubgroupSize(SubgroupType::kReplicated);
  return !tiles.dims.empty() &&
         tiles.copies * sharding->TileCount() == sharding->tiles.device_count();
}

}  // namespace

bool XlaRematerializes(const Sharding* has, const Sharding* wants) {
  TileCounts before, after;
  if (!ReadTileCounts(has, before) || !ReadTileCounts(wants, after)) return false;
  if (before.dims.size() != after.dims.size()) return false;
  return !KeepsTiles(before, after, /*may_split=*/true, 0);
}

}  // namespace gshard
