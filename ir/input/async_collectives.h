// Asynchronous collectives as JAX writes them for a compiler to expand: custom calls
// all-gather-start and all-gather-done, the start with a dictionary of text (frontend attribute
// async_collective_config).
#ifndef GSHARD_IR_INPUT_ASYNC_COLLECTIVES_H_
#define GSHARD_IR_INPUT_ASYNC_COLLECTIVES_H_

#include "ir/module.h"

namespace gshard {

// They become the all-gathers that they stand for, at the place of the start. Both halves have the
// result's shape, so that nothing else changes; calls that are no such pair stay as they are.
void RewriteAsyncCollectives(Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_ASYNC_COLLECTIVES_H_
