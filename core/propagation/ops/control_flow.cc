// While: the carried value refines the loop. Conditionals, calls and what joins loop bodies to
// their callers go through related sets (computation_map.h).
#include "core/propagation/improvement.h"
#include "core/propagation/rules.h"

namespace gshard {

void WhileForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* init = x.operand(0);
  const Sharding* s = c.NotMaximal(init);
  if (s == nullptr) return;
  if (const Sharding* current = c.of(&x)) {
    if (const Sharding* merged = MergeIntoOffer(c.derive(), current, s, c.may_combine())) {
      s = merged;
    }
  }
  offers.Add(s, init, false);
}

const Sharding* WhileBackward(const PropagationContext&, const Instruction&, const Sharding* s,
                              const Instruction&) {
  return s;
}

}  // namespace gshard
