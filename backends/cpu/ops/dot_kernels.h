// Kernels of the dot family that have a file of their own.
#ifndef GSHARD_BACKENDS_CPU_OPS_DOT_KERNELS_H_
#define GSHARD_BACKENDS_CPU_OPS_DOT_KERNELS_H_

#include <memory>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

// ragged-dot whose ragged dim is free or contracted (a ragged batch dim is a plain dot).
std::unique_ptr<Kernel> MakeRaggedDotKernel(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_DOT_KERNELS_H_
