// A sum of all-reduces over the iterations of a loop is reduced once, after the loop.
#ifndef GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
#define GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_

#include "ir/module.h"

namespace gshard {

// Where an element of a loop's state is only ever added to, state += AR(g), possibly reshaped or
// transposed, every device adds up its own g from zero, and after the loop the sum is all-reduced
// once and added to the initial value. Sums are added in another order. True if something changed.
// Linear.
bool MoveAllReducesOutOfLoops(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_WHILE_LOOP_ALL_REDUCE_CODE_MOTION_H_
