// Barriers that kept shardings apart: of no use once shardings are decided.
#ifndef GSHARD_CORE_TRANSFORMS_SHARD_BARRIERS_H_
#define GSHARD_CORE_TRANSFORMS_SHARD_BARRIERS_H_

#include "ir/module.h"

namespace gshard {

// Users of `ShardBarrierFrom` and `ShardBarrierTo` custom-calls take the operand instead. True if
// there were any. Propagation leaves them, so that it finds them again if it runs again.
bool RemoveShardBarriers(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_SHARD_BARRIERS_H_
