// How the dims along which an operation reads moving ranges may be cut, and the cheapest choice.
//
// Labels give a dim of an operation one role; a dim that is sliced or slid over has several to
// choose from. Every combination is a set of labels: ChooseCuts prices them all.
#ifndef GSHARD_CORE_PARTITION_SCOPE_RANGE_CUT_H_
#define GSHARD_CORE_PARTITION_SCOPE_RANGE_CUT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/partition/scope/dim_range.h"
#include "core/partition/scope/op_rule.h"

namespace gshard {

enum class RangeCut : uint8_t {
  kWhole,    // neither operand nor result
  kHalo,     // both alike: edges are exchanged
  kResult,   // the result; every device has the operand whole along the dim
  kPartial,  // the operand; results hold what the own tile contributes
};

struct CutChoice {
  std::vector<RangeCut> cuts;  // one per dim given
  Strategy strategy;
};

// One list of alternatives per dim; too many combinations are thinned out. `wanted`: where the
// results should end, one per leaf.
CutChoice ChooseCuts(PartitionContext& rule, std::span<PartitionedValue* const> operands,
                     std::vector<std::vector<RangeCut>> alternatives,
                     std::span<const MeshLayout* const> wanted,
                     const std::function<Labels(std::span<const RangeCut>)>& labels_of);

// Is there a local form (or an annotation) of the value that is cut along `dim`?
bool IsEverCut(const PartitionedValue& value, int64_t dim);
// Most tiles along `dim` in any form of the value, or in a layout.
int64_t MostTiles(const PartitionedValue& value, int64_t dim);

// Bytes of one element along `dim`, the other dims as in the value's current layout.
double RowBytes(const PartitionedValue& value, int64_t dim);
// Bytes-equivalents of the halo exchange for `shards` shards of an operand whose other dims are as
// in its current layout.
double HaloCost(PartitionScope& scope, const PartitionedValue& operand, int64_t dim,
                const DimRange& range, int64_t shards);

// The scalar that leaves every value as it is under all-reduce with DisjointCombiner: -0.0 for
// floats, so that -0.0 survives.
Instruction* ReductionIdentity(PartitionScope& scope, DType dtype);
Opcode DisjointCombiner(DType dtype);
// Can values of this type be put together by all-reduce?
bool CanMerge(DType dtype);

// What a device's tile has of a window of `width` elements along a cut dim.
struct OwnWindow {
  int64_t width = 0;             // elements taken from the tile: min(width of the window, tile)
  Instruction* from = nullptr;   // first of them in the tile
  Instruction* shift = nullptr;  // window position of the tile's element `from`, negated
  Instruction* is_in = nullptr;  // does the window's first element lie in the tile?
};
// `delta`: first element of the window, counted from the tile's first.
OwnWindow FindOwnWindow(PartitionScope& scope, Instruction* delta, int64_t width, int64_t tile);

// A start index as the operation means it: clamped to [0, bound] in its own type, then s32 (s64
// where positions need it).
Instruction* ClampedIndex(PartitionScope& scope, Instruction* index, int64_t bound);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_RANGE_CUT_H_
