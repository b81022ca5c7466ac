// reduce-window and select-and-scatter: the body once a window position.

#include "core/cost/rules.h"

namespace gshard {

OpCost ReduceWindowCost(const Instruction& instruction) {
  double window = 1;
  for (const WindowDim& dim : instruction.attributes<WindowAttributes>().window) {
    window *= static_cast<double>(dim.size);
  }
  if (instruction.opcode() == Opcode::kSelectAndScatter) {
    double windows = static_cast<double>(instruction.operand(1)->shape()->element_count());
    return {.flops = windows * (window * ScalarComputationFlops(*instruction.called(0)) +
                                ScalarComputationFlops(*instruction.called(1)))};
  }
  const Shape* result =
      instruction.shape()->IsTuple() ? instruction.shape()->element(0) : instruction.shape();
  double windows = static_cast<double>(result->element_count());
  return {.flops = windows * window * ScalarComputationFlops(*instruction.called(0))};
}

}  // namespace gshard
