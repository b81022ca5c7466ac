// Collectives trade places with cheap operations so that they move less.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_MOVER_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_MOVER_H_

#include "ir/module.h"

namespace gshard {

// Operations on a gathered value that work on its parts alike are done before the all-gather, on
// the part: converts to narrower types, elementwise ones (also of two values gathered alike, or
// with a constant that fills the other operand), transposes, reshapes that keep the parts together,
// slices and reductions of other dims. Narrowing converts and slices are done before an all-to-all
// or collective-permute, too, and widening converts after all three. Never moves more bytes than
// before, and only collectives without another user move. Exact. True if something changed. Linear.
bool MoveCollectives(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_MOVER_H_
