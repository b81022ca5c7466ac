// How long a kernel takes on a chip: the longest of its matrix work, its vector work and its memory
// traffic, which overlap, and the least time a kernel takes. docs/cost.md, "Kernels".
#ifndef GSHARD_CORE_COST_KERNEL_TIME_H_
#define GSHARD_CORE_COST_KERNEL_TIME_H_

#include "core/cost/chip.h"
#include "core/cost/kernel_work.h"

namespace gshard {

// Seconds; 0 for kernels that do nothing.
double KernelSeconds(const KernelWork& work, const Chip& chip);

// FLOP/s of the matrix units for a product: by the operands' type, or the passes over narrower
// types that its precision or algorithm asks for. Without padding and efficiency.
double MatrixRate(const MatrixWork& product, const Chip& chip);

// How the chip's compiler cuts a program into kernels, for time and memory alike.
FusionOptions FusionOptionsOf(const Chip& chip);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_KERNEL_TIME_H_
