// Reads tuples' elements where they are made, as compilers' tuple simplification does.
#ifndef GSHARD_CORE_TRANSFORMS_FORWARD_TUPLE_ELEMENTS_H_
#define GSHARD_CORE_TRANSFORMS_FORWARD_TUPLE_ELEMENTS_H_

#include "ir/module.h"

namespace gshard {

// Users of get-tuple-element(tuple(a, b), i) use a or b: inlined calls of several results leave
// such pairs. Roots stay. True if anything changed; what lost its users is left to RemoveDeadCode.
bool ForwardTupleElements(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_FORWARD_TUPLE_ELEMENTS_H_
