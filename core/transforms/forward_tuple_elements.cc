// See forward_tuple_elements.h.

#include "core/transforms/forward_tuple_elements.h"

namespace gshard {
namespace {

Instruction* ElementSource(Instruction* x) {
  while (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
    x = x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
  }
  return x;
}

}  // namespace

bool ForwardTupleElements(Module& module) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        Instruction* source = ElementSource(x->operand(i));
        if (source == x->operand(i)) continue;
        x->set_operand(i, source);
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace gshard
