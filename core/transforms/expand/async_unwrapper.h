// Asynchronous computations as calls.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_ASYNC_UNWRAPPER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_ASYNC_UNWRAPPER_H_

#include "ir/module.h"

namespace gshard {

// async-start, async-update and async-done of a computation with host transfers become a call,
// which inline-calls can resolve: the start has the result. True if there were some.
bool UnwrapAsync(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_ASYNC_UNWRAPPER_H_
