// Reduce-window and select-and-scatter: windows see neighbours (halo), so tiles pass unless the
// windows are dilated.
#include "core/propagation/rules.h"

namespace gshard {

void ReduceWindowForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  for (const WindowDim& w : x.attributes<WindowAttributes>().window) {
    if (w.base_dilation > 1 || w.window_dilation > 1) return;
  }
  for (int64_t i = 0; i < x.operand_count() / 2; ++i) {
    const Sharding* s = c.NotMaximal(x.operand(i));
    if (s == nullptr) continue;
    if (x.shape()->IsTuple()) {
      s = c.context().TupleOf(
          std::vector<const Sharding*>(static_cast<size_t>(x.shape()->leaf_count()), s));
    }
    offers.Add(s, x.operand(i), true);
  }
}

const Sharding* ReduceWindowBackward(const PropagationContext&, const Instruction& user,
                                     const Sharding* s, const Instruction& x) {
  int64_t k = OperandIndex(user, x);
  return k < user.operand_count() / 2 ? ResultElement(user, s, k) : nullptr;
}

void SelectAndScatterForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  for (const WindowDim& w : x.attributes<WindowAttributes>().window) {
    if (w.base_dilation > 1) return;
  }
  FirstOperandForward(c, x, offers);
}

}  // namespace gshard
