// Tuple, get-tuple-element: leaves of a tuple sharding are put together and taken apart.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

void CopyLeaves(const Sharding* s, LeafRange range, std::vector<const Sharding*>& leaves) {
  for (int64_t i = 0; i < range.count; ++i) {
    leaves[static_cast<size_t>(range.first + i)] =
        s->IsTuple() ? s->elements[static_cast<size_t>(i)] : s;
  }
}

}  // namespace

LeafRange LeavesOfElement(const Shape* tuple_shape, int64_t index) {
  return {tuple_shape->first_leaf(index), tuple_shape->element(index)->leaf_count()};
}

void TupleForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Sharding* current = c.of(&x);
  const Instruction* from = nullptr;
  bool any_partitioned = false;
  std::vector<const Sharding*> leaves;
  if (current != nullptr) {
    leaves = current->elements;
  } else {
    leaves.assign(static_cast<size_t>(x.shape()->leaf_count()), c.context().Replicated());
  }
  LeafRange range;
  for (int64_t k = 0; k < x.operand_count(); ++k, range.first += range.count) {
    const Instruction* operand = x.operand(k);
    range.count = operand->shape()->leaf_count();
    const Sharding* s = c.of(operand);
    if (s == nullptr) continue;
    if (c.NotMaximal(operand) != nullptr) {
      any_partitioned = true;
      if (from == nullptr) from = operand;
    }
    if (current == nullptr) {
      CopyLeaves(s, range, leaves);
      continue;
    }
    for (int64_t i = 0; i < range.count; ++i) {
      const Sharding* leaf = s->IsTuple() ? s->elements[static_cast<size_t>(i)] : s;
      const Sharding*& mine = leaves[static_cast<size_t>(range.first + i)];
      if (leaf != mine && IsMoreSpecific(leaf, mine)) {
        mine = leaf;
        from = operand;
      }
    }
  }
  if (!any_partitioned || (current != nullptr && leaves == current->elements)) return;
  offers.AddAsItIs(c.context().TupleOf(std::move(leaves)), from);
}

const Sharding* TupleBackward(const PropagationContext& c, const Instruction& user,
                              const Sharding* s, const Instruction& x) {
  const Sharding* best = nullptr;
  for (int64_t k = 0; k < user.operand_count(); ++k) {
    if (user.operand(k) != &x) continue;
    const Sharding* element = ElementSharding(c.context(), user.shape(), s, k)->canonical;
    if (best == nullptr || IsMoreSpecific(element, best)) best = element;
  }
  return best;
}

void GetTupleElementForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const Instruction* operand = x.operand(0);
  const Sharding* s = c.NotMaximal(operand);
  if (s == nullptr) return;
  int64_t index = x.attributes<GetTupleElementAttributes>().index;
  offers.Add(ElementSharding(c.context(), operand->shape(), s, index), operand, true);
}

const Sharding* GetTupleElementBackward(const PropagationContext& c, const Instruction& user,
                                        const Sharding* s, const Instruction& x) {
  Context& ctx = c.context();
  std::vector<const Sharding*> leaves;
  if (const Sharding* current = c.of(&x)) {
    leaves = current->elements;
  } else {
    leaves.assign(static_cast<size_t>(x.shape()->leaf_count()), ctx.Replicated());
  }
  LeafRange range = LeavesOfElement(x.shape(), user.attributes<GetTupleElementAttributes>().index);
  CopyLeaves(s, range, leaves);
  return ctx.TupleOf(std::move(leaves));
}

}  // namespace gshard
