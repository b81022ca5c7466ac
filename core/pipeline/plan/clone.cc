#include "core/pipeline/plan/clone.h"

namespace gshard::pipeline {

Instruction* CloneInto(Module& module, Computation* to, Instruction* x,
                       std::span<Instruction* const> operands, bool take_name) {
  std::string_view name = module.UniqueName(x->name());
  if (take_name) {
    std::string_view other = name;
    name = x->name();
    x->set_name(other);
  }
  return module.Clone(to, x, operands, name);
}

}  // namespace gshard::pipeline
