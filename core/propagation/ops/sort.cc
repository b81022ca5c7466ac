// Sort: all operands and results alike; the sorted dim may be tiled only if its tiles can move to
// another dim while sorting.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

bool TilesCanMove(const Shape* shape, const Sharding* s, int64_t sort_dim) {
  int64_t tiles = s->TileCount(sort_dim);
  if (tiles <= 1) return true;
  if (shape->rank() < 2 || shape->dim(sort_dim) <= 1) return false;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (d != sort_dim && shape->dim(d) % (tiles * s->TileCount(d)) == 0) return true;
  }
  return false;
}

}  // namespace

void SortForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* best = MostSpecificOperand(c, x);
  if (best == nullptr) return;
  const Sharding* s = c.of(best);
  if (!TilesCanMove(best->shape(), s, x.attributes<SortAttributes>().dimension)) return;
  if (x.shape()->IsTuple()) {
    s = c.context().TupleOf(
        std::vector<const Sharding*>(static_cast<size_t>(x.shape()->leaf_count()), s));
  }
  offers.Add(s, best, true);
}

const Sharding* SortBackward(const PropagationContext&, const Instruction& user, const Sharding* s,
                             const Instruction& x) {
  return ResultElement(user, s, OperandIndex(user, x));
}

}  // namespace gshard
