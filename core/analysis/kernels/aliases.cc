// See aliases.h.

#include "core/analysis/kernels/aliases.h"

#include "ir/instruction.h"

namespace gshard {

bool MovesNothing(const Instruction& x) {
  const bool repeats = x.opcode() == Opcode::kBroadcast;
  if (!repeats && x.opcode() != Opcode::kTranspose) return false;
  const Shape* operand = x.operand(0)->shape();
  if (operand->element_count() != x.shape()->element_count()) return false;
  int64_t last = -1;
  for (const int64_t dim : x.attributes<DimensionsAttributes>().dimensions) {
    if ((repeats ? x.shape() : operand)->dim(dim) == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

bool IsAlias(const Instruction* x, bool is_compiled) {
  return x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast ||
         (!is_compiled && (x->opcode() == Opcode::kCopy || MovesNothing(*x)));
}

}  // namespace gshard
