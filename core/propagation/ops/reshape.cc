// Reshape: tiles follow where runs of source dims map onto runs of result dims.
#include "core/propagation/rules.h"

namespace gshard {

void ReshapeForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.NotMaximal(operand);
  if (s == nullptr) return;
  offers.Add(c.derive().Reshape(s, operand->shape(), x.shape()), operand, true);
}

const Sharding* ReshapeBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x) {
  return c.derive().Reshape(s, user.shape(), x.shape());
}

}  // namespace gshard
