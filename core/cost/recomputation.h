// Which instructions do again what was done before, to keep nothing of it in between.
#ifndef GSHARD_CORE_COST_RECOMPUTATION_H_
#define GSHARD_CORE_COST_RECOMPUTATION_H_

#include "ir/instruction.h"

namespace gshard {

// True for what jax.checkpoint computes again (op_name has "rematted_computation") and for what a
// rematerialisation pass cloned (".remat" in the name, as XLA and gshard-opt remat write it).
inline bool IsRecomputed(const Instruction& instruction) {
  return instruction.metadata().find("rematted_computation") != std::string_view::npos ||
         instruction.name().find(".remat") != std::string_view::npos;
}

}  // namespace gshard

#endif  // GSHARD_CORE_COST_RECOMPUTATION_H_
