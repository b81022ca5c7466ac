// The kernel factories, one a family (several where operations share nothing); ops/<family>.cc.
#ifndef GSHARD_BACKENDS_CPU_OPS_FACTORIES_H_
#define GSHARD_BACKENDS_CPU_OPS_FACTORIES_H_

#include <memory>

#include "backends/cpu/elementwise/kernel.h"
#include "ir/module.h"

namespace gshard::cpu {

using KernelOrError = Expected<std::unique_ptr<Kernel>>;

KernelOrError MakeElementwise(const Instruction& instruction);
KernelOrError MakeBroadcast(const Instruction& instruction);
KernelOrError MakeReshape(const Instruction& instruction);
KernelOrError MakeTranspose(const Instruction& instruction);
KernelOrError MakeSlice(const Instruction& instruction);
// The operands one behind another along `dim`, which must fit.
std::unique_ptr<Kernel> MakeConcatenation(const Instruction& instruction, int64_t dim);
KernelOrError MakeDot(const Instruction& instruction);
KernelOrError MakeReduce(const Instruction& instruction);
KernelOrError MakeScan(const Instruction& instruction);
KernelOrError MakeConvolution(const Instruction& instruction);
KernelOrError MakeReduceWindow(const Instruction& instruction);
KernelOrError MakeGatherScatter(const Instruction& instruction);
KernelOrError MakeSort(const Instruction& instruction);
// topk over the last dim: results (values, s32 indices).
std::unique_ptr<Kernel> MakeTopKKernel(const Shape* operand, int64_t k, bool largest);
KernelOrError MakeIota(const Instruction& instruction);
KernelOrError MakeRng(const Instruction& instruction);
KernelOrError MakeBatchNorm(const Instruction& instruction);
KernelOrError MakeLinalg(const Instruction& instruction);
KernelOrError MakeFft(const Instruction& instruction);
KernelOrError MakeCustomCall(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_FACTORIES_H_
