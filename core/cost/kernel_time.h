// How long a kernel takes on a chip: max(matrix work, vector work, memory traffic), since these
// overlap, plus Chip::launch_s, over what steps sustain of that. docs/kernels.md.
#ifndef GSHARD_CORE_COST_KERNEL_TIME_H_
#define GSHARD_CORE_COST_KERNEL_TIME_H_

#include "core/cost/chip.h"
#include "core/cost/kernel_work.h"

namespace gshard {

// Returns the time of one execution in seconds; 0 for kernels that do nothing and for scalar ones.
// RatedSeconds is at the chip's rates: what a compiler's estimates are compared with.
double KernelSeconds(const KernelWork& work, const Chip& chip);
double RatedSeconds(const KernelWork& work, const Chip& chip);

// Returns the FLOP/s of the matrix units for a product: by the operands' type, or by the passes
// over narrower types that its precision or algorithm asks for. Without padding and efficiency.
double MatrixRate(const MatrixWork& product, const Chip& chip);

// Returns how the chip's compiler cuts a program into kernels, for time and memory alike.
FusionOptions FusionOptionsOf(const Chip& chip);
// Whose share of scores a mask cuts off is what attention takes, as the chip's stack gives
// positions to devices.
MaskedOn MaskedOnOf(const Chip& chip);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_KERNEL_TIME_H_
