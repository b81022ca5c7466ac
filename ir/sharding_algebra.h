// Derived operations on shardings (docs/sharding.md, "Derived operations"; GSPMD paper section 3).
//
// Inputs and results are interned pointers of one Context. Replicated, maximal, manual, unknown and
// unreduced inputs pass through unchanged (as their canonical form) unless said otherwise. Data
// dims only: subgroup dims ride along. All are independent of the number of devices for axis forms.
// Results carry no metadata.
#ifndef GSHARD_IR_SHARDING_ALGEBRA_H_
#define GSHARD_IR_SHARDING_ALGEBRA_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/instruction.h"
#include "ir/shape.h"
#include "ir/sharding.h"

namespace gshard {

// Makes devices that differ only along `dims` replicas of each other: the counts of these dims
// become 1. Called *rep-on* in docs/sharding.md.
const Sharding* ReplicateOnDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims);
// Applies ReplicateOnDims to all data dims but `dims`.
const Sharding* KeepOnlyDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims);
// Keeps manual subgroups only; the result has `rank` data dims of count 1.
const Sharding* ReplicateAllDataDims(Context& ctx, const Sharding* s, int64_t rank);
// Deletes / inserts dims of count 1. RemoveDims: the dims must have count 1. AddDims: positions in
// the result.
const Sharding* RemoveDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims);
const Sharding* AddDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims);
// New data dim i is old data dim permutation[i].
const Sharding* TransposeSharding(Context& ctx, const Sharding* s,
                                  std::span<const int64_t> permutation);
// Moves source dim i to target dim source_to_target[i], -1 for none (its count must be 1, else null
// is returned). Target dims that are not named get count 1.
const Sharding* MapDims(Context& ctx, const Sharding* s, std::span<const int64_t> source_to_target,
                        int64_t target_rank);
// Keeps only the dims `from`; from[i] becomes target dim to[i]. Other target dims get count 1.
const Sharding* AlongDims(Context& ctx, const Sharding* s, std::span<const int64_t> from,
                          std::span<const int64_t> to, int64_t target_rank);
// Element at tile t moves to tile count-1-t along `dims`.
const Sharding* ReverseSharding(Context& ctx, const Sharding* s, std::span<const int64_t> dims);
// Dim d of count t becomes (k, t/k).
const Sharding* SplitDim(Context& ctx, const Sharding* s, int64_t dim, int64_t k);
// Dims d and d+1 become one of their product.
const Sharding* MergeDims(Context& ctx, const Sharding* s, int64_t dim);
// count(to) *= count(from), the old `from` index minor; count(from) = 1.
const Sharding* MoveTiles(Context& ctx, const Sharding* s, int64_t from, int64_t to);
// Returns the sharding that a reshape from `from_dims` to `to_dims` passes on; replicated where
// nothing maps.
const Sharding* PropagateThroughReshape(Context& ctx, const Sharding* s,
                                        std::span<const int64_t> from_dims,
                                        std::span<const int64_t> to_dims);

// True if `a` refines `b` on this shape: each device's tile by `a` lies within its tile by `b`.
// True for any `a` if `b` is replicated or maximal.
bool IsSubTiling(const Sharding* a, const Sharding* b, const Shape* shape);
// Returns a sharding that refines both `a` and `b` with at least `minimum_tiles` tiles (0: one more
// than `b` has), or null if there is none that this finds. If `b` is replicated or maximal: `a`, if
// it is tiled. If `a` is: null.
const Sharding* MergeShardings(Context& ctx, const Sharding* a, const Sharding* b,
                               int64_t minimum_tiles = 0);
// Merges the shardings of `list` one after the other, each into what those before it give, with at
// least as many tiles as that has. Where that fails, `fallback`, or the first of the list if that
// is null; `fallback` for an empty list.
const Sharding* CommonSharding(Context& ctx, std::span<const Sharding* const> list,
                               const Sharding* fallback = nullptr);
// True if `a`, a leaf or a tuple, is more specific than `b` (docs/propagation.md, "The improvement
// rule").
bool IsMoreSpecific(const Sharding* a, const Sharding* b);

// --- geometry. Tile size c = ceil(n/t); device at tile i holds [min(i*c,n), min((i+1)*c,n)).
// Shape of one device's buffer: tiled dims become their tile size; layouts kept. Tuples by leaf.
const Shape* ShardShape(Context& ctx, const Shape* shape, const Sharding* s);
// Returns the index of a device's tile along each data dim (zeros unless tiled).
std::vector<int64_t> TileIndexOf(const Sharding* s, int64_t device, int64_t rank);
bool DividesEvenly(const Sharding* s, const Shape* shape);

// --- tuples
// Returns the sharding of each leaf of `shape`, in pre-order: the elements of a tuple sharding, any
// other sharding repeated.
std::vector<const Sharding*> LeafShardings(const Shape* shape, const Sharding* s);
// Returns the sharding of leaf `leaf`; null where there is none.
inline const Sharding* LeafSharding(const Sharding* s, size_t leaf) {
  if (s == nullptr || !s->IsTuple()) return s;
  return leaf < s->elements.size() ? s->elements[leaf] : nullptr;
}
// Returns the sharding of element `index` of a tuple-shaped value.
const Sharding* ElementSharding(Context& ctx, const Shape* shape, const Sharding* s, int64_t index);

// --- device groups. Each dim in `dims` of count t splits into t/kept groups (major) by `kept`
// (minor, stays sharded). Groups are numbered row-major in the order of `dims`.
struct DeviceGroups {
  TileAssignment groups;  // dims [group_count, group_size]: device numbers
  // Over group_size devices, renumbered 0.. in tile-array order; replicated for groups of one.
  const Sharding* inside = nullptr;
  int64_t data_rank = 0;            // of the sharding that was grouped
  std::vector<SubgroupType> types;  // per grouped dim; of use for subgroup dims only
  int64_t group_count() const { return groups.dim(0); }
  int64_t group_size() const { return groups.dim(1); }
};
// `dims` may name subgroup dims too (index >= data rank). `kept` empty: all 1.
DeviceGroups GroupOnDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims,
                         std::span<const int64_t> kept = {});
// The inverse: `inside` within each of `groups`, counts[i] groups (major) along dims[i]. A dim
// beyond the data dims of `inside` becomes a subgroup of the type that was grouped.
const Sharding* Ungroup(Context& ctx, const DeviceGroups& groups, std::span<const int64_t> dims,
                        std::span<const int64_t> counts, const Sharding* inside);
// `group_count` groups of `devices` devices that hold replicas of one another's data if possible:
// cut from the replicated dim, then from the data dims `allowed_dims` in order; else consecutive
// blocks, replicated inside.
DeviceGroups GroupOnReplicated(Context& ctx, const Sharding* s, int64_t devices,
                               int64_t group_count, std::span<const int64_t> allowed_dims);
// Groups of devices that agree on everything except tile coordinates along `dims` (data or subgroup
// dims), members in row-major order of `dims`: the groups of a collective along them.
TileAssignment CollectiveGroups(const Sharding* s, std::span<const int64_t> dims);

// Says why `s` cannot be the sharding of a value of `shape` on `devices` devices (0: unknown
// count); empty if it can. `subsets`: a sharding for fewer devices, 0..n-1, is over those, not for
// another mesh.
std::string WhyNotApplicable(const Sharding* s, const Shape* shape, int64_t devices,
                             bool subsets = false);
// Same question about an instruction's own sharding. The sharding of an outfeed may be that of its
// data: one for all leaves, or a tuple of the leaves' with or without one for its token.
std::string WhyNotApplicable(const Instruction& x, int64_t devices, bool subsets = false);
// Returns the shardings of the leaves of an outfeed's data; null where none is given.
std::vector<const Sharding*> OutfeedShardings(const Instruction& outfeed);

}  // namespace gshard

#endif  // GSHARD_IR_SHARDING_ALGEBRA_H_
