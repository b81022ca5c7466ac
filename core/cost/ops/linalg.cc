// cholesky: n^3/3 a matrix; triangular-solve: n^2 a right-hand side.

#include "core/cost/rules.h"

namespace gshard {

OpCost LinalgCost(const Instruction& instruction) {
  const Shape* a = instruction.operand(0)->shape();
  double n = static_cast<double>(a->dim(a->rank() - 1));
  if (instruction.opcode() == Opcode::kCholesky) {
    return {.flops = static_cast<double>(a->element_count()) * n / 3};
  }
  return {.flops = static_cast<double>(instruction.shape()->element_count()) * n};
}

}  // namespace gshard
