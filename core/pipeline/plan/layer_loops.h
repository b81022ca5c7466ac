// Loops over layers (jax.lax.scan over stacked weights) written out.
//
// A counted loop of the entry is one over layers if its body slices, by the number of the turn,
// an array that is made of weights alone, or that an earlier loop over layers stacked. Its turns
// follow one another in the entry; what it stacks is a `concatenate` of the turns' pieces, and a
// later loop's slice of such a stack is the piece itself. Loops over examples or time stay.
#ifndef GSHARD_CORE_PIPELINE_PLAN_LAYER_LOOPS_H_
#define GSHARD_CORE_PIPELINE_PLAN_LAYER_LOOPS_H_

#include <unordered_set>

#include "ir/module.h"

namespace gshard::pipeline {

// Calls must be inlined. `data`: the numbers of the entry's parameters that hold examples. Names of
// instructions outside the loops stay. Returns how many loops were written out. Fails
// (E-PIPELINE-010) where that would take more than ten million instructions.
Expected<int64_t> WriteOutLayerLoops(Module& module, const std::unordered_set<int64_t>& data);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_LAYER_LOOPS_H_
