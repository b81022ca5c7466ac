// collective-broadcast whose root is known at run time only, in terms of all-reduce.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_ROOT_H_
#define GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_ROOT_H_

#include "backends/cpu/mesh/collective_groups.h"
#include "ir/module.h"

namespace gshard::cpu {

// collective-broadcast(x.., root), has_dynamic_root=true: an all-reduce of what the member at
// position `root` of the group has and of zeros from the others, bit by bit. After partitioning.
// Errors: E-RUN-GROUPS of ResolveGroups.
Expected<void> ExpandDynamicRoots(Module& module, const DeviceGrid& grid);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_ROOT_H_
