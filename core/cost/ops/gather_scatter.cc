// Gathers read the rows they take; scatters read and write the rows they touch.

#include <algorithm>

#include "core/cost/rules.h"

namespace gshard {

OpCost GatherScatterCost(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::kGather) {
    double moved = 2 * static_cast<double>(instruction.shape()->byte_size());
    return {.bytes = moved + static_cast<double>(instruction.operand(1)->shape()->byte_size()),
            .has_bytes = true};
  }
  int64_t inputs = (instruction.operand_count() - 1) / 2;
  double elements = 0,
         bytes = static_cast<double>(instruction.operand(inputs)->shape()->byte_size());
  for (int64_t i = 0; i < inputs; ++i) {
    const Shape* update = instruction.operand(inputs + 1 + i)->shape();
    elements += static_cast<double>(update->element_count());
    const auto written = static_cast<double>(update->byte_size());
    // Of rows that are touched again and again each is read once.
    bytes += 2 * written +
             std::min(written, static_cast<double>(instruction.operand(i)->shape()->byte_size()));
  }
  return {.flops = elements * ScalarComputationFlops(*instruction.called(0)),
          .bytes = bytes,
          .has_bytes = true};
}

}  // namespace gshard
