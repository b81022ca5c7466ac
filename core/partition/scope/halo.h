// Emits halo exchanges: every device gets the range of a sharded dim that it asks for.
#ifndef GSHARD_CORE_PARTITION_SCOPE_HALO_H_
#define GSHARD_CORE_PARTITION_SCOPE_HALO_H_

#include "core/partition/plan/halo_plan.h"
#include "core/partition/scope/partition_scope.h"

namespace gshard {

// Dim `dim` of an array, cut into tiles by `axes` of `layout`.
struct ShardedDim {
  int64_t dim;
  const MeshLayout* layout;
  AxisSpan axes;
};

// `local` is cut along `dim` into request.shards tiles. The result has request.width elements along
// it: those from request.Start(ordinal) on. Elements outside [request.begin, request.size) are
// unspecified; mask them where it matters (MaskRange with Start as offset). The number of
// instructions does not depend on the number of devices.
Instruction* ExchangeHalo(PartitionScope& scope, Instruction* local, const ShardedDim& dim,
                          const HaloRequest& request, const ReshardCause& cause);

// For every shard i with source_of[i] >= 0 the `x` of shard source_of[i]; zeros for the others.
// Within every row of the sub-axes that are not in `axes`.
Instruction* PermuteTiles(PartitionScope& scope, Instruction* x, const MeshLayout* layout,
                          AxisSpan axes, std::span<const int64_t> source_of,
                          const ReshardCause& cause);

// Where a range begins: at start + shift, which is known to lie in [least, greatest].
struct RangeStart {
  Instruction* start = nullptr;  // a scalar; may be null where least == greatest
  int64_t shift = 0;
  int64_t least = 0, greatest = 0;
};
// The range of `width` elements of `local` along `dim` from `from` on; what lies outside the array
// is `fill`, null: zero. One pad at most and a dynamic-slice (static where least == greatest).
Instruction* SliceRange(PartitionScope& scope, Instruction* local, int64_t dim,
                        const RangeStart& from, int64_t width, Instruction* fill);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_HALO_H_
