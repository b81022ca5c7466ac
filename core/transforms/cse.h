// Equal computations are done once: tables and offsets that partitioning repeats, identical
// collectives, and what the program itself has twice.
#ifndef GSHARD_CORE_TRANSFORMS_CSE_H_
#define GSHARD_CORE_TRANSFORMS_CSE_H_

#include "ir/module.h"

namespace gshard {

// Replaces every instruction by an earlier one of its computation with the same opcode, shape,
// operands (in any order where that does not matter), attributes and called computations; reducers
// count as the same if they do the same. Channel ids do not count. Copies, barriers (which exist to
// keep values apart), random numbers, side effects and control flow are left alone. True if
// something changed. Linear.
bool MergeCommonSubexpressions(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_CSE_H_
