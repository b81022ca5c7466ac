// Emits halo exchanges: every device gets the range of a sharded dim that it asks for.
#ifndef GSHARD_CORE_PARTITION_HALO_H_
#define GSHARD_CORE_PARTITION_HALO_H_

#include "core/partition/halo_plan.h"
#include "core/partition/partition_scope.h"

namespace gshard {

// `local` is cut along `dim` into request.shards tiles by `axes` of `layout`. The result has
// request.width elements along `dim`: those from request.Start(ordinal) on. Elements outside
// [0, request.size) are unspecified; mask them where it matters (MaskRange with Start as offset).
Instruction* ExchangeHalo(PartitionScope& scope, Instruction* local, int64_t dim,
                          const MeshLayout* layout, AxisSpan axes, const HaloRequest& request,
                          const ReshardCause& cause);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_HALO_H_
