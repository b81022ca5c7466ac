// Rng: the scalars that shape the distribution are replicated, so at most manual subgroups pass.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {

void RngForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  for (const Instruction* operand : x.operands()) {
    if (const Sharding* s = c.NotMaximal(operand)) {
      offers.Add(ReplicateAllDataDims(c.context(), s, x.shape()->rank()), operand, false);
    }
  }
}

}  // namespace gshard
