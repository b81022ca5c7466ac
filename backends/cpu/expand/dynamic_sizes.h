// Arrays whose sizes are known at run time only, in terms of arrays of their bounds.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_SIZES_H_
#define GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_SIZES_H_

#include "ir/module.h"

namespace gshard::cpu {

// Every f32[<=8] becomes f32[8] with a scalar that says how much of it counts. What would mix in
// the rest (reductions, products, sorts, concatenations, padding) masks it or moves it behind;
// get-dimension-size is that scalar. In results of the entry the rest is zero. Dynamic parameters
// are of their bounds. Before partitioning; inlines calls. Errors: E-RUN-DYNAMIC for operations
// that nothing defines on a part of an array, and for such arrays that enter or leave loops and
// branches.
Expected<void> ExpandDynamicSizes(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_DYNAMIC_SIZES_H_
