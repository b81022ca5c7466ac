// reduce, scan and batch normalisation: the combiner once an input element.

#include "core/cost/rules.h"

namespace gshard {

OpCost ReduceCost(const Instruction& instruction) {
  double elements = static_cast<double>(instruction.operand(0)->shape()->element_count());
  switch (instruction.opcode()) {
    case Opcode::kReduce:
    case Opcode::kScan:
      return {.flops = elements * ScalarComputationFlops(*instruction.called(0))};
    case Opcode::kBatchNormInference:
      return {.flops = 4 * elements};
    case Opcode::kBatchNormTraining:
      return {.flops = 8 * elements};
    default:  // batch-norm-grad
      return {.flops = 12 * elements};
  }
}

}  // namespace gshard
