// Collectives in manual regions follow the elementwise pattern; outfeed takes its data's element.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {

void CollectiveForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* best = MostSpecificOperand(c, x);
  if (best == nullptr) return;
  const Sharding* s = c.of(best);
  if (x.shape()->IsTuple()) {
    s = c.context().TupleOf(
        std::vector<const Sharding*>(static_cast<size_t>(x.shape()->leaf_count()), s));
  }
  offers.Add(s, best, true);
}

const Sharding* OutfeedBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x) {
  if (OperandIndex(user, x) != 0) return nullptr;
  if (!s->IsTuple()) return s;
  const auto leaves = static_cast<size_t>(x.shape()->leaf_count());
  if (s->elements.size() < leaves) return nullptr;
  if (!x.shape()->IsTuple()) return s->elements[0];
  return c.context().TupleOf({s->elements.begin(), s->elements.begin() + x.shape()->leaf_count()});
}

}  // namespace gshard
