// What library calls do, by their operands: GEMMs of cuBLAS, attention and convolutions of cuDNN
// and Transformer Engine, Pallas kernels by their own estimate, factorisations of LAPACK and
// cuSOLVER, what Python code partitions by its sharding rule.
#ifndef GSHARD_CORE_COST_CUSTOM_CALL_WORK_H_
#define GSHARD_CORE_COST_CUSTOM_CALL_WORK_H_

#include "core/cost/kernel_work.h"
#include "ir/instruction.h"

namespace gshard {

// Adds the call's arithmetic to `work`, sets its class and, where the call says so, its bytes.
// Calls that are not known only move their operands and results.
void AddCustomCall(const Instruction& call, KernelWork& work);
// Of the above, the floating-point operations.
double CustomCallFlops(const Instruction& call);
// Is nothing known of what the call computes?
bool HasUnknownWork(const Instruction& call);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_CUSTOM_CALL_WORK_H_
