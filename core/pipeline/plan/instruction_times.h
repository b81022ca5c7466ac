// How long the instructions of a computation take on a chip, by the cost model: kernels as its
// compiler cuts them, each as long as gshard-cost says (docs/kernels.md).
#ifndef GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_
#define GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_

#include <functional>
#include <unordered_map>

#include "core/analysis/kernels/fusion.h"
#include "core/cost/chip.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard::pipeline {

// Immutable after construction, which interns nothing: it may be made on a thread of its own while
// others read the module.
class InstructionTimes {
 public:
  // Of the entry's instructions. Both must live as long as this.
  InstructionTimes(const Module& module, const Chip& chip);

  // Seconds. A kernel's time is its root's, other members take none; control flow takes what it
  // calls takes, loops as often as they run (where that is known).
  double Of(const Instruction* x) const { return SecondsOf(x, fusion_); }
  // May the kernel of a dot or convolution, attention's apart, write `x`? On chips whose products
  // write what elementwise operations make of them for nobody else, wherever it is to lie.
  bool IsWrittenByProduct(const Instruction* x) const;

 private:
  double SecondsOf(const Instruction* x, const FusionModel& fusion) const;
  double SecondsOf(const Computation& computation) const;

  const Chip& chip_;
  Users users_;
  ModuleAttention attention_;
  FusionModel fusion_;
};

// Of the forward pass where it keeps nothing for the backward pass: seconds of the entry's loops
// without the elements that only the backward pass reads; loops without such elements are not
// there. The loop of a recurrent layer stacks values of every turn for the backward loop. Where the
// backward pass computes them again, compilers remove them from the first forward pass, which takes
// a fraction of the time then. `is_forward`: of elements of a forward loop it is true, whoever
// reads them; `is_target`: the instruction is needed even if nothing reads it. Linear; the module
// is copied if there are such loops.
std::unordered_map<const Instruction*, double> SecondsOfForwardLoops(
    const Module& module, const std::function<bool(const Instruction*)>& is_forward,
    const std::function<bool(const Instruction*)>& is_target, const Chip& chip);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_INSTRUCTION_TIMES_H_
