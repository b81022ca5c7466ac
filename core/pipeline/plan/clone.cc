#include "core/pipeline/plan/clone.h"

#include <string>

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

}  // namespace gshard::pipeline
