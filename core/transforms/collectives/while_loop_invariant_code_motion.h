// Collectives that give the same in every iteration of a loop are done once, before it.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_INVARIANT_CODE_MOTION_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_INVARIANT_CODE_MOTION_H_

#include "ir/module.h"

namespace gshard {

// Hoists the collectives of a loop's body that depend on constants and on state the loop passes on
// unchanged, with what they need; their results become state. Gathered weights then live as long
// as the loop. Inner loops first, so that what leaves an inner loop may leave the outer one. True
// if something changed. Linear.
bool HoistInvariantCollectives(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_WHILE_LOOP_INVARIANT_CODE_MOTION_H_
