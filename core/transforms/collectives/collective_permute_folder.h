// Chains of collective-permutes are one.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_PERMUTE_FOLDER_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_PERMUTE_FOLDER_H_

#include "ir/module.h"

namespace gshard {

// collective-permute(collective-permute(x)) becomes the composition of both, where the inner one
// has no other user; devices that hear from nobody get zeros either way. A permute of zeros is
// zeros. True if something changed. Linear in instructions and pairs.
bool FoldCollectivePermutes(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_PERMUTE_FOLDER_H_
