// Kernels whose result is a rearrangement of one operand: slice, reverse, transpose.
#ifndef GSHARD_BACKENDS_CPU_OPS_VIEW_KERNEL_H_
#define GSHARD_BACKENDS_CPU_OPS_VIEW_KERNEL_H_

#include <memory>
#include <span>

#include "backends/cpu/elementwise/kernel.h"
#include "ir/shape.h"

namespace gshard::cpu {

// Result element i (of `result`'s dims) is operand element offset + strides . i.
std::unique_ptr<Kernel> MakeViewKernel(const Shape* result, std::span<const int64_t> strides,
                                       int64_t offset);

// Result 0 has the bytes of operand 0.
std::unique_ptr<Kernel> MakeCopyKernel(const Shape* shape);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_VIEW_KERNEL_H_
