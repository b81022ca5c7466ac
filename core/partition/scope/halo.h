// Emits halo exchanges: every device gets the range of a sharded dim that it asks for.
#ifndef GSHARD_CORE_PARTITION_SCOPE_HALO_H_
#define GSHARD_CORE_PARTITION_SCOPE_HALO_H_

#include "core/partition/plan/halo_plan.h"
#include "core/partition/scope/partition_scope.h"

namespace gshard {

// `local` is cut along `dim` into request.shards tiles by `axes` of `layout`. The result has
// request.width elements along `dim`: those from request.Start(ordinal) on. Elements outside
// [request.begin, request.size) are unspecified; mask them where it matters (MaskRange with Start
// as offset). The number of instructions does not depend on the number of devices.
Instruction* ExchangeHalo(PartitionScope& scope, Instruction* local, int64_t dim,
                          const MeshLayout* layout, AxisSpan axes, const HaloRequest& request,
                          const ReshardCause& cause);

// For every shard i with source_of[i] >= 0 the `x` of shard source_of[i]; zeros for the others.
// Within every row of the sub-axes that are not in `axes`.
Instruction* PermuteTiles(PartitionScope& scope, Instruction* x, const MeshLayout* layout,
                          AxisSpan axes, std::span<const int64_t> source_of,
                          const ReshardCause& cause);

// The range [at, at + width) of `local` along `dim`, at = start + shift where the scalar `start` is
// known to lie in [least, greatest]; what lies outside the array is `fill`. One pad at most and a
// dynamic-slice (static where least == greatest; `start` may be null then).
Instruction* SliceRange(PartitionScope& scope, Instruction* local, int64_t dim, Instruction* start,
                        int64_t shift, int64_t least, int64_t greatest, int64_t width,
                        Instruction* fill);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_HALO_H_
