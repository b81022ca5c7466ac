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

// Elements of a loop's state that are equal in all iterations become one: those that start with the
// same instruction and are followed by equal values wherever they are equal. JAX's autodiff stacks
// a value once for each operation that needs it; three norms of one input are three stacks each.
// Equal computations of the module are done once then, too, but for collectives: a program that
// others partitioned sends what its text says. True if something changed. Time: a pass over a
// loop's body for each round that splits elements, of which there are few.
bool MergeEqualLoopState(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_CSE_H_
