// Broadcast: new dims are never tiled by the operand, and what tiles them says nothing about it.
#include "core/propagation/rules.h"

namespace gshard {
void BroadcastForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.NotMaximal(operand);
  if (s == nullptr || s->IsReplicated()) return;
  // Operand dim i becomes result dim dimensions[i]; the order of dims may change.
  offers.Add(
      c.derive().MapDims(s, x.attributes<DimensionsAttributes>().dimensions, x.shape()->rank()),
      operand, true);
}

// Dims that the operand does not have are replicated and dropped.
const Sharding* BroadcastBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction& x) {
  if (!s->IsTiled()) return s;
  Dims dimensions = user.attributes<DimensionsAttributes>().dimensions;
  std::vector<int64_t> to_operand(static_cast<size_t>(user.shape()->rank()), -1);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    to_operand[static_cast<size_t>(dimensions[i])] = static_cast<int64_t>(i);
  }
  return c.derive().MapDims(s, to_operand, x.shape()->rank());
}

}  // namespace gshard
