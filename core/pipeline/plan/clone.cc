#include "core/pipeline/plan/clone.h"

#include <string>
#include <unordered_map>
#include <vector>

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

}  // namespace gshard::pipeline
