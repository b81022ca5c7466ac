// Copies of instructions under other operands, in the same module.
#ifndef GSHARD_CORE_PIPELINE_PLAN_CLONE_H_
#define GSHARD_CORE_PIPELINE_PLAN_CLONE_H_

#include <span>
#include <unordered_set>

#include "ir/module.h"

namespace gshard::pipeline {

// A copy of `x` at the end of `to`: same shape, attributes, called computations, metadata and
// sharding. `take_name`: it has the name of `x`, which gets another; else that name with a number.
Instruction* CloneInto(Module& module, Computation* to, Instruction* x,
                       std::span<Instruction* const> operands, bool take_name);

// A copy whose instructions have new names; what it calls is shared.
Computation* CloneComputation(Module& module, const Computation& original);

// The loops' bodies, branches and functions that x runs, and what these run.
void AddRun(const Instruction* x, std::unordered_set<const Computation*>& run);

// Gives x copies of its own of what it runs: a computation that is run both within a manual region
// and outside of one can have no sharding.
void SeparateCalled(Module& module, Instruction* x);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_CLONE_H_
