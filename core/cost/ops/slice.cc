// Slices read what they keep; in-place updates touch the update only.

#include "core/cost/rules.h"

namespace gshard {

OpCost SliceCost(const Instruction& instruction) {
  double result = static_cast<double>(instruction.shape()->byte_size());
  switch (instruction.opcode()) {
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kReverse:
      return {.bytes = 2 * result, .has_bytes = true};
    case Opcode::kDynamicUpdateSlice:
      return {.bytes = 2 * static_cast<double>(instruction.operand(1)->shape()->byte_size()),
              .has_bytes = true};
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
      return {.bytes = 0, .has_bytes = true};
    default:
      return {};
  }
}

}  // namespace gshard
