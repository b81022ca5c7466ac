// Collectives that a program waits for where it runs call by call, as PyTorch does: those between
// one product of activations and the next, such as the sums of tensor parallelism and the exchanges
// of experts. Gathers of weights (FSDP) are begun a layer ahead there, and sums of gradients (DDP,
// FSDP) end when the weights are updated, so both run beside compute.
#ifndef GSHARD_CORE_COST_BLOCKING_COLLECTIVES_H_
#define GSHARD_CORE_COST_BLOCKING_COLLECTIVES_H_

#include <unordered_set>

#include "ir/module.h"

namespace gshard {

// Returns the collectives of `computation` on which a dot, a convolution, a loop or a call of it
// depends, except those of what is only moved or cast from a parameter. A layer that is a loop's
// body is looked at alone: a sum of its gradients that the loop only carries blocks nothing. Time:
// linear in the computation. Thread-safe.
std::unordered_set<const Instruction*> BlockingCollectives(const Computation& computation);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_BLOCKING_COLLECTIVES_H_
