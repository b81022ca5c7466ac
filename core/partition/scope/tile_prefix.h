// What running operations (cumulative windows, scans) bring into a tile along a cut dim: the fold
// of all tiles before it.
//
// Every shard folds its own tile to a total, learns what comes before it, and only then runs over
// its elements (the parallel prefix of Blelloch, "Prefix sums and their applications", 1990, with
// one processor a tile). Totals are gathered, or combined in log2(tiles) rounds of permutes.
#ifndef GSHARD_CORE_PARTITION_SCOPE_TILE_PREFIX_H_
#define GSHARD_CORE_PARTITION_SCOPE_TILE_PREFIX_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/partition/scope/op_rule.h"

namespace gshard {

// One array per folded operand, of one element along the dim (or stacks of them).
using FoldValues = std::vector<Instruction*>;

struct TileFold {
  // The fold of two neighbouring runs of elements, in the order of the operation.
  std::function<FoldValues(const FoldValues& earlier, const FoldValues& later)> combine;
  // From the totals of the tiles that hold data, stacked along the dim: for each shard, the fold of
  // the inits and of what comes before its tile.
  std::function<FoldValues(const FoldValues& totals)> carry;
};

struct TilePrefix {
  const MeshLayout* layout = nullptr;
  int64_t dim = 0;    // cut by `layout`
  int64_t tiles = 1;  // that hold data; the others' totals are not looked at
  bool is_reverse = false;

  // The tile where the operation starts, by ordinal, and the one where it ends.
  int64_t First() const { return is_reverse ? tiles - 1 : 0; }
  int64_t Last() const { return is_reverse ? 0 : tiles - 1; }
};

// How shards learn what comes before their tiles if a total has `bytes` bytes. Permutes must save
// more than their rounds cost.
struct PrefixPlan {
  bool by_permutes = false;
  double bytes = 0;  // received per device
};
PrefixPlan PlanPrefix(const PartitionOptions& options, double bytes, int64_t tiles);

// What comes into the tile of each shard, from the own total and the inits. Shards without data get
// anything. Permutes use `combine`, gathering uses `carry`.
FoldValues CarryIntoTile(PartitionContext& rule, const TilePrefix& prefix, const PrefixPlan& plan,
                         const TileFold& fold, const FoldValues& totals, const FoldValues& inits);

// Is the own tile the one with this ordinal? A scalar.
Instruction* IsTile(PartitionContext& rule, const TilePrefix& prefix, int64_t ordinal);
// Per leaf, by a scalar predicate.
FoldValues SelectAll(Builder& builder, Instruction* predicate, const FoldValues& on_true,
                     const FoldValues& on_false);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_TILE_PREFIX_H_
