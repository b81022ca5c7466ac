// Arrays whose sizes are known at run time only, in terms of arrays of their bounds.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_PADDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_PADDER_H_

#include "ir/module.h"

namespace gshard {

// Every f32[<=8] becomes f32[8] with a scalar that says how much of it counts. What would mix in
// the rest (reductions, products, sorts, concatenations, padding) masks it or moves it behind;
// get-dimension-size is that scalar. In results of the entry the rest is zero. Dynamic parameters
// are of their bounds. Before partitioning; inlines calls. Errors: E-RUN-DYNAMIC for operations
// that nothing defines on a part of an array, and for such arrays that enter or leave loops and
// branches.
Expected<bool> PadDynamicSizes(Module& module);
// Is there anything for it?
bool HasDynamicSizes(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_DYNAMIC_PADDER_H_
