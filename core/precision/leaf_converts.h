// Values of the same shape with other element types.
#ifndef GSHARD_CORE_PRECISION_LEAF_CONVERTS_H_
#define GSHARD_CORE_PRECISION_LEAF_CONVERTS_H_

#include "ir/builder.h"

namespace gshard {

// `x` with the element types of `to`, tuples leaf by leaf; x itself if it has them.
Instruction* ConvertLeaves(Instruction* x, const Shape* to, Builder& builder);

}  // namespace gshard

#endif  // GSHARD_CORE_PRECISION_LEAF_CONVERTS_H_
