// Loops carry and compute what somebody reads, nothing else.
#ifndef GSHARD_CORE_TRANSFORMS_WHILE_LOOP_SIMPLIFIER_H_
#define GSHARD_CORE_TRANSFORMS_WHILE_LOOP_SIMPLIFIER_H_

#include "ir/module.h"

namespace gshard {

// Removes elements of loop states that neither the condition, nor a side effect, nor what follows
// the loop, nor an element that stays depends on, with the computations and collectives that made
// them; so a carried value that only updates itself goes. True if something changed. Linear.
bool RemoveDeadLoopState(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_WHILE_LOOP_SIMPLIFIER_H_
