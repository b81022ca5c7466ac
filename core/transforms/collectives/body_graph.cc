#include "core/transforms/collectives/body_graph.h"

namespace gshard {

BodyGraph::BodyGraph(const Computation& body) {
  std::vector<const Computation*> todo = {&body};
  while (!todo.empty()) {
    const Computation& computation = *todo.back();
    todo.pop_back();
    for (Instruction* x : computation.instructions()) {
      AddUses(x);
      if (x->opcode() != Opcode::kConditional) continue;
      for (const Computation* branch : x->called()) {
        std::vector<Instruction*>& callers = callers_[branch];
        callers.push_back(x);
        if (callers.size() == 1) todo.push_back(branch);
      }
    }
  }
}

void BodyGraph::AddUses(Instruction* x) {
  if (x->opcode() == Opcode::kGetTupleElement) {
    elements_[{x->operand(0), x->attributes<GetTupleElementAttributes>().index}].push_back(x);
    return;
  }
  for (int64_t i = 0; i < x->operand_count(); ++i) uses_[x->operand(i)].push_back({x, i});
}

}  // namespace gshard
