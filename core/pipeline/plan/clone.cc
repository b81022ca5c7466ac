#include "core/pipeline/plan/clone.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op_traits.h"

namespace gshard::pipeline {

Instruction* CloneInto(Module& module, Computation* to, Instruction* x,
                       std::span<Instruction* const> operands, bool take_name) {
  // The first copy of dot.5 is dot.5.1, the second dot.5.2: names tell whose copies they are.
  std::string first(x->name());
  first += ".1";
  std::string_view name = module.UniqueName(first);
  if (take_name) {
    std::string_view other = name;
    name = x->name();
    x->set_name(other);
  }
  return module.Clone(to, x, operands, name);
}

Computation* CloneComputation(Module& module, const Computation& original) {
  Computation* copy = module.AddComputation(original.name());
  std::unordered_map<const Instruction*, Instruction*> value;
  for (Instruction* x : original.instructions()) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) operands.push_back(value.at(operand));
    value[x] = CloneInto(module, copy, x, operands, /*take_name=*/false);
  }
  copy->set_root(value.at(original.root()));
  return copy;
}

void AddRun(const Instruction* x, std::unordered_set<const Computation*>& run) {
  if (!RunsCallees(x->opcode())) return;
  for (const Computation* called : x->called()) {
    if (!run.insert(called).second) continue;
    for (const Instruction* inner : called->instructions()) AddRun(inner, run);
  }
}

void SeparateCalled(Module& module, Instruction* x) {
  if (!RunsCallees(x->opcode())) return;
  for (int64_t i = 0; i < std::ssize(x->called()); ++i) {
    Computation* copy = CloneComputation(module, *x->called(i));
    x->set_called(i, copy);
    for (Instruction* inner : copy->instructions()) SeparateCalled(module, inner);
  }
}

}  // namespace gshard::pipeline
