// Random bits: integer work, counted as transcendental units so that it is not taken for useful
// flops.

#include "core/cost/rules.h"

namespace gshard {

OpCost RngCost(const Instruction& instruction) {
  return {.transcendentals = static_cast<double>(instruction.shape()->byte_size()) / 4};
}

}  // namespace gshard
