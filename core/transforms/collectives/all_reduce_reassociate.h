// A sum of all-reduces is the all-reduce of a sum.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_REASSOCIATE_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_REASSOCIATE_H_

#include "ir/module.h"

namespace gshard {

// op(R(a), R(b)) becomes R(op(a, b)) where R are equal all-reduces or reduce-scatters that combine
// with op and have no other user; also where equal reshapes, transposes or slices stand behind
// them, and where another term was added in between: op(op(c, R(a)), R(b)). One collective instead
// of two; floating-point sums are added in another order. True if something changed. Linear.
bool ReassociateAllReduces(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_REASSOCIATE_H_
