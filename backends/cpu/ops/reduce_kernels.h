// Kernels of the reduce family that have a file of their own.
#ifndef GSHARD_BACKENDS_CPU_OPS_REDUCE_KERNELS_H_
#define GSHARD_BACKENDS_CPU_OPS_REDUCE_KERNELS_H_

#include <memory>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

// A reduce over trailing dims to the place of the largest or smallest float, as argmax and argmin
// of JAX have it; null for any other.
std::unique_ptr<Kernel> MakeArgReduceKernel(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_REDUCE_KERNELS_H_
