// Emits piecewise exchanges: results put together from pieces of several buffers' tiles.
#ifndef GSHARD_CORE_PARTITION_SCOPE_PIECE_EXCHANGE_H_
#define GSHARD_CORE_PARTITION_SCOPE_PIECE_EXCHANGE_H_

#include <span>

#include "core/partition/plan/piece_plan.h"
#include "core/partition/scope/halo.h"

namespace gshard {

// `buffers` are cut (or whole) along the dim. The result has `width` elements along it; elements in
// no piece are unspecified. Offsets are read from tables where they are not affine.
Instruction* ExchangePieces(PartitionScope& scope, std::span<Instruction* const> buffers,
                            const ShardedDim& dim, const PiecePlan& plan, int64_t width,
                            const ReshardCause& cause);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PIECE_EXCHANGE_H_
