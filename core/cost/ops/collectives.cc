// Local work of collectives: reductions apply their combiner; the rest only moves.

#include "core/cost/rules.h"

namespace gshard {

OpCost CollectiveLocalCost(const Instruction& instruction) {
  if (instruction.called().empty()) return {};
  double elements = 0;
  for (const Instruction* operand : instruction.operands()) {
    elements += static_cast<double>(operand->shape()->element_count());
  }
  return {.flops = elements * ScalarComputationFlops(*instruction.called(0))};
}

}  // namespace gshard
