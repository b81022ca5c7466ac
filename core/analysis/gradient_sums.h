// Additions of weights' gradients to sums over micro-batches. The product that makes a gradient may
// do its addition as it writes (Megatron-LM's fused gradient accumulation; beta = 1 of BLAS), and
// what is summed over devices, too, may be so behind the loop.
#ifndef GSHARD_CORE_ANALYSIS_GRADIENT_SUMS_H_
#define GSHARD_CORE_ANALYSIS_GRADIENT_SUMS_H_

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

// True for the sum of what a loop carries and of a product, or of the rows that an inner loop's
// products stack up, and for the update that writes such a sum back into its rows of what is
// carried. Casts and reshapes may stand between. Pure; may be called from any thread.
bool IsSumWithProduct(const Instruction* x);

// Is `x`, cast or in another shape at most, added to what a loop carries, and used for nothing
// else? `users`: of its computation. Pure; may be called from any thread.
bool IsAddedToCarried(const Instruction& x, const Users& users);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_GRADIENT_SUMS_H_
