// Reshape: tiles follow where runs of source dims map onto runs of result dims.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {

void ReshapeForward(const RuleContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.Partitioned(operand);
  if (s == nullptr) return;
  offers.Add(
      PropagateThroughReshape(c.context(), s, operand->shape()->dims(), x.shape()->dims()),
      operand, true);
}

const Sharding* ReshapeBackward(const RuleContext& c, const Instruction& user, const Sharding* s,
                                const Instruction& x) {
  return PropagateThroughReshape(c.context(), s, user.shape()->dims(), x.shape()->dims());
}

}  // namespace gshard
