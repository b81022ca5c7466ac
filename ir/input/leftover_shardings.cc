#include "ir/input/leftover_shardings.h"

#include "ir/sharding_algebra.h"

namespace gshard {

void DropLeftoverShardings(Module& module) {
  if (module.entry() == nullptr || !module.entry()->name().ends_with("_spmd")) return;
  const int64_t devices = module.DeviceCount();  // by its parameters, where the header has none
  if (devices <= 1) return;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr || x->opcode() == Opcode::kParameter) continue;
      if (!WhyNotApplicable(*x, devices).empty()) x->set_sharding(nullptr);
    }
  }
}

}  // namespace gshard
