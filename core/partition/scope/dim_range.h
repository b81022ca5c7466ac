// What a shard of a result reads along one dim of an operand, and how it gets it: the common part
// of slice, pad, reverse, concatenate, convolution and reduce-window (GSPMD paper, section 4.3).
#ifndef GSHARD_CORE_PARTITION_SCOPE_DIM_RANGE_H_
#define GSHARD_CORE_PARTITION_SCOPE_DIM_RANGE_H_

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/partition/scope/halo.h"

namespace gshard {

// Element e of the operand lies at position e * dilation. Shard i reads the positions
// [scale * i + bias, scale * i + bias + length); those between elements or outside the array hold
// the fill value.
struct DimRange {
  int64_t size = 0;
  int64_t dilation = 1;
  int64_t scale = 0, bias = 0, length = 0;
  // Elements before `first` and positions from `end` on are of no interest to anybody.
  int64_t first = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
  // Elements [first, second) that a shard needs of its range, per shard; empty: all.
  std::vector<std::pair<int64_t, int64_t>> needs = {};
};

// The elements a shard reads, with what a window over them still has to add so that it slides over
// exactly `length` positions.
struct FetchedRange {
  Instruction* local = nullptr;
  int64_t pad_low = 0, pad_high = 0;
  int64_t dilation = 1;
};

// Brings the range of every shard along dim.axes to it. `local` is cut along the dim by the same
// axes, or whole: then nothing is exchanged. Positions without data become the scalar `fill`; null:
// they are unspecified (the dilation must be 1 then).
FetchedRange FetchRange(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
                        bool is_cut, const DimRange& range, Instruction* fill,
                        const ReshardCause& cause);
// The same with padding and dilation carried out: `length` elements along dim.
Instruction* FetchPositions(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
                            bool is_cut, const DimRange& range, Instruction* fill,
                            const ReshardCause& cause);

// The exchange that FetchRange makes when `shards` shards hold tiles of the canonical size; for
// estimates. `tile`: of another size.
HaloPlan PlanRange(const DimRange& range, int64_t shards, double row_bytes, int64_t tile = 0);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_DIM_RANGE_H_
