// How the values of a micro-batch lie over the axes of IN's mesh where nothing is pipelined.
#ifndef GSHARD_CORE_PIPELINE_PLAN_UNPIPELINED_SHARDINGS_H_
#define GSHARD_CORE_PIPELINE_PLAN_UNPIPELINED_SHARDINGS_H_

#include <unordered_map>

#include "ir/module.h"

namespace gshard::pipeline {

using ShardingOfInstruction = std::unordered_map<const Instruction*, const Sharding*>;

// Propagates `annotations` (of instructions of `module`'s entry, over `devices` devices) through a
// copy of the module. The result names the entry's instructions that have a sharding then; it is
// empty for one device. Errors: those of propagation.
Expected<ShardingOfInstruction> PropagateUnpipelined(const Module& module,
                                                     const ShardingOfInstruction& annotations,
                                                     int64_t devices);

// Is some dim of the array in more than one tile? Null is no sharding.
bool IsCut(const Shape* shape, const Sharding* s);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_UNPIPELINED_SHARDINGS_H_
