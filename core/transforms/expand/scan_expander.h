// scan as a while loop, where its body is more than arithmetic.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_SCAN_EXPANDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_SCAN_EXPANDER_H_

#include "ir/module.h"

namespace gshard {

// Scans whose bodies have loops, branches, collectives or transfers become while loops over (index,
// carries, outputs, inputs), which take and put one slice an iteration, and call the body.
// The others are kernels of a backend. True if there were some.
bool ExpandScans(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_SCAN_EXPANDER_H_
