// How long the instructions of a computation take on a chip, by the cost model: kernels as its
// compiler cuts them, each as long as gshard-cost says (docs/cost.md, "Kernels").
#ifndef GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_
#define GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_

#include "core/analysis/kernels/fusion.h"
#include "core/cost/chip.h"

namespace gshard::pipeline {

class InstructionTimes {
 public:
  // `users`, `attention`: of all computations of the module. All must live as long as this.
  InstructionTimes(const Computation& computation, const Users& users,
                   const ModuleAttention& attention, const Chip& chip);

  // Seconds. A kernel's time is its root's, other members take none; control flow takes what it
  // calls takes, loops as often as they run (where that is known).
  double Of(const Instruction* x) const;
  // May the kernel of a dot or convolution, attention's apart, write `x`? On chips whose products
  // write what elementwise operations make of them for nobody else, wherever it is to lie.
  bool IsWrittenByProduct(const Instruction* x) const;

 private:
  double SecondsOf(const Computation& computation) const;

  const Users& users_;
  const ModuleAttention& attention_;
  const Chip& chip_;
  FusionModel fusion_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_
