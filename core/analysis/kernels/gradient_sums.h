// Additions of weights' gradients to sums over micro-batches, which the product that makes the
// gradient may do as it writes (Megatron-LM's fused gradient accumulation; beta = 1 of BLAS).
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_GRADIENT_SUMS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_GRADIENT_SUMS_H_

#include "ir/module.h"

namespace gshard {

// True for the sum of what a loop carries and of a product, or of the rows that an inner loop's
// products stack up, and for the update that writes such a sum back into its rows of what is
// carried. Casts and reshapes may stand between. Pure; may be called from any thread.
bool IsSumWithProduct(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_GRADIENT_SUMS_H_
