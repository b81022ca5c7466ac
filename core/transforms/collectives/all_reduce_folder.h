// Two reductions in a row become one, or the smaller one first.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_FOLDER_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_FOLDER_H_

#include "ir/module.h"

namespace gshard {

// all-reduce(all-reduce(x)) along different mesh axes is one all-reduce along both;
// reduce-scatter(all-reduce(x)) along different axes is all-reduce(reduce-scatter(x)), which
// reduces a part only; so is a slice of an all-reduce. True if something changed. Linear.
bool FoldAllReduces(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_ALL_REDUCE_FOLDER_H_
