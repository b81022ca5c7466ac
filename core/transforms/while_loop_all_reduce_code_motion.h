// A sum of all-reduces over the iterations of a loop is reduced once, after the loop.
#ifndef GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
#define GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_

#include "ir/module.h"

namespace gshard {

// Where an element of a loop's state is only ever added to, state += AR(g), every device adds up
// its own g from zero, and after the loop the sum is all-reduced once and added to the initial
// value: what is sent no longer grows with the number of iterations. Sums are added in another
// order. The accumulator, and AR(g), may be reshaped on the way, and all this stand in branches, as
// pipelines add up gradients (docs/pipelining.md), if a branch without all-reduce hands the
// accumulator on as it is. One that begins at zero may also be moved about, cut and put together.
// True if something changed. Linear.
bool MoveAllReducesOutOfLoops(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
