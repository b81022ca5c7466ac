// See aliases.h.

#include "core/analysis/kernels/aliases.h"

#include "ir/instruction.h"

namespace gshard {

bool MovesUnitDims(const Instruction& x) {
  if (x.opcode() != Opcode::kTranspose) return false;
  int64_t last = -1;
  for (const int64_t dim : x.attributes<DimensionsAttributes>().dimensions) {
    if (x.operand(0)->shape()->dim(dim) == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

bool IsAlias(const Instruction* x, bool is_compiled) {
  return x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast ||
         (!is_compiled && (x->opcode() == Opcode::kCopy || MovesUnitDims(*x)));
}

}  // namespace gshard
