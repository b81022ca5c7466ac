#include "ir/compiled_text.h"

#include <algorithm>

namespace gshard {

bool IsCompiled(const Module& module) {
  if (module.header().is_scheduled) return true;
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(),
                               [](const Instruction* x) { return x->opcode() == Opcode::kFusion; });
  });
}

}  // namespace gshard
