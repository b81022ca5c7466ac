#include "ir/input/leftover_shardings.h"

#include "ir/sharding_algebra.h"

namespace gshard {

void DropLeftoverShardings(Module& module) {
  const int64_t devices = module.header().num_partitions;
  if (devices <= 1 || module.entry() == nullptr) return;
  if (!module.entry()->name().ends_with("_spmd")) return;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr || x->opcode() == Opcode::kParameter) continue;
      if (!WhyNotApplicable(*x, devices).empty()) x->set_sharding(nullptr);
    }
  }
}

}  // namespace gshard
