// Transpose: tiles move with their dims.
#include "core/propagation/rules.h"

namespace gshard {

void TransposeForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Sharding* s = c.NotMaximal(x.operand(0));
  if (s == nullptr) return;
  offers.Add(c.derive().Transpose(s, x.attributes<DimensionsAttributes>().dimensions), x.operand(0),
             true);
}

const Sharding* TransposeBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction&) {
  Dims dimensions = user.attributes<DimensionsAttributes>().dimensions;
  std::vector<int64_t> inverse(dimensions.size());
  for (size_t i = 0; i < dimensions.size(); ++i) {
    inverse[static_cast<size_t>(dimensions[i])] = static_cast<int64_t>(i);
  }
  return c.derive().Transpose(s, inverse);
}

}  // namespace gshard
