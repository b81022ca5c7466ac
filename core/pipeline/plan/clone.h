// Copies of instructions under other operands, in the same module.
#ifndef GSHARD_CORE_PIPELINE_PLAN_CLONE_H_
#define GSHARD_CORE_PIPELINE_PLAN_CLONE_H_

#include <span>

#include "ir/module.h"

namespace gshard::pipeline {

// A copy of `x` at the end of `to`: same shape, attributes, called computations, metadata and
// sharding. `take_name`: it has the name of `x`, which gets another; else that name with a number.
Instruction* CloneInto(Module& module, Computation* to, Instruction* x,
                       std::span<Instruction* const> operands, bool take_name);

// A copy whose instructions have new names; what it calls is shared.
Computation* CloneComputation(Module& module, const Computation& original);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_CLONE_H_
