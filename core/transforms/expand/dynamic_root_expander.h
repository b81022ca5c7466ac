// collective-broadcast whose root is known at run time only, in terms of all-reduce.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_ROOT_EXPANDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_ROOT_EXPANDER_H_

#include "core/analysis/device_grid.h"
#include "ir/module.h"

namespace gshard {

// collective-broadcast(x.., root), has_dynamic_root=true: an all-reduce of what the member at
// position `root` of the group has and of zeros from the others, bit by bit. Of the program of one
// device. True if there were some. Errors: E-RUN-GROUPS of ResolveGroups.
Expected<bool> ExpandDynamicRoots(Module& module, const DeviceGrid& grid);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_ROOT_EXPANDER_H_
