// Rematerialization across loops: what a forward loop saves for a backward loop is computed again
// there.
//
// A scanned network saves every layer's activations in stacks, which its backward loop reads row by
// row:
//
//   forward body:   stack' = dynamic-update-slice(stack, f(x_i, w_i), i, ..)
//   backward body:  a = dynamic-slice(stack, i, ..)
//
// If f's operands are known in the backward body too (rows of other stacks, weights, the counter),
// a = f(x_i, w_i) is computed there, and no loop carries the stack: jax.checkpoint on a scan's body
// after the fact (Chen et al., 2016).
#ifndef GSHARD_CORE_REMAT_LOOP_RESIDUALS_H_
#define GSHARD_CORE_REMAT_LOOP_RESIDUALS_H_

#include <cstdint>
#include <vector>

#include "core/remat/rematerialization.h"
#include "ir/module.h"

namespace gshard {

struct DroppedResiduals {
  int64_t stacks = 0;        // that no loop carries any more
  int64_t instructions = 0;  // added, to compute their rows again
  // By the instruction of the forward body whose value a row is, with the stack's bytes.
  std::vector<DroppedValue> values;
};

// Stacks that could be dropped, each with the others kept.
int64_t CountLoopResiduals(Module& module);

// Drops the `count` stacks whose rows cost least to compute for their bytes. In place; the module
// must have no calls (core/transforms/inline_calls.h). Deterministic: a clone of the module loses
// the same. Collectives, control flow and side effects are never repeated.
DroppedResiduals DropLoopResiduals(Module& module, int64_t count);

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_LOOP_RESIDUALS_H_
