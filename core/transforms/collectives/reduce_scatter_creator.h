// An all-reduce of which every device keeps its own part is a reduce-scatter.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_REDUCE_SCATTER_CREATOR_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_REDUCE_SCATTER_CREATOR_H_

#include "ir/module.h"

namespace gshard {

// dynamic-slice(all-reduce(x)) whose starts are the device's place along some of the group's axes,
// per sliced dim, becomes reduce-scatters along those axes and an all-reduce of the part along the
// rest; so is dynamic-slice(all-gather(x)) of the device's own part x itself. The all-reduce must
// have no other user. Starts are compared in closed form (device_function.h), for all devices at
// once. True if something changed. Linear.
bool CreateReduceScatters(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_REDUCE_SCATTER_CREATOR_H_
