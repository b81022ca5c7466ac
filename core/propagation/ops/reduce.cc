// Reduce: reduced dims are combined over the devices, the others keep their tiles. Scan: only the
// scanned dim is special.
#include "core/propagation/rules.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

// The same sharding for every leaf of a tuple result.
const Sharding* ForAllResults(Context& ctx, const Instruction& x, const Sharding* s) {
  if (!x.shape()->IsTuple()) return s;
  return ctx.TupleOf(
      std::vector<const Sharding*>(static_cast<size_t>(x.shape()->leaf_count()), s->canonical));
}

}  // namespace

void ReduceForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  Context& ctx = c.context();
  Dims reduced = x.attributes<DimensionsAttributes>().dimensions;
  for (int64_t i = 0; i < x.operand_count() / 2; ++i) {
    const Instruction* input = x.operand(i);
    const Sharding* s = c.NotMaximal(input);
    if (s == nullptr) continue;
    if (s->IsManual()) {
      offers.Add(s, input, true, x.shape()->IsTuple() ? i : -1);
      continue;
    }
    const Sharding* kept = c.derive().ReplicateOnDims(s, reduced);
    if (kept->IsTiled()) kept = c.derive().RemoveDims(kept, reduced);
    offers.Add(ForAllResults(ctx, x, kept), input, true);
  }
}

const Sharding* ReduceBackward(const PropagationContext& c, const Instruction& user,
                               const Sharding* s, const Instruction& x) {
  if (x.shape()->rank() == 0) return nullptr;
  int64_t k = OperandIndex(user, x);
  int64_t inputs = user.operand_count() / 2;
  if (k >= inputs) return nullptr;
  s = ResultElement(user, s, k);
  if (s->IsTiled()) s = c.derive().AddDims(s, user.attributes<DimensionsAttributes>().dimensions);
  for (int64_t i = 0; i < inputs; ++i) {
    if (i == k) continue;
    const Sharding* other = c.NotMaximal(user.operand(i));
    if (other == nullptr) continue;
    if (const Sharding* merged = c.derive().Merge(other, s)) s = merged;
  }
  return s;
}

void ScanForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const ScanAttributes& a = x.attributes<ScanAttributes>();
  int64_t inputs = x.operand_count() - a.num_carries;
  int64_t outputs = x.shape()->leaf_count() - a.num_carries;
  bool tuple = x.shape()->IsTuple();
  auto result_rank = [&](int64_t i) {
    return tuple ? x.shape()->element(i)->rank() : x.shape()->rank();
  };
  const int64_t scanned[] = {a.dimension};
  for (int64_t i = 0; i < inputs; ++i) {
    const Instruction* input = x.operand(i);
    const Sharding* s = c.NotMaximal(input);
    if (s == nullptr) continue;
    if (i < outputs && result_rank(i) == input->shape()->rank()) {
      offers.Add(s, input, true, tuple ? i : -1);
    }
    if (i < a.num_carries && result_rank(outputs + i) + 1 == input->shape()->rank()) {
      const Sharding* carry = c.derive().ReplicateOnDims(s, scanned);
      if (carry->IsTiled()) carry = c.derive().RemoveDims(carry, scanned);
      offers.Add(carry, input, true, tuple ? outputs + i : -1);
    }
  }
  for (int64_t i = 0; i < a.num_carries; ++i) {
    const Instruction* init = x.operand(inputs + i);
    offers.Add(c.NotMaximal(init), init, true, tuple ? outputs + i : -1);
  }
}

const Sharding* ScanBackward(const PropagationContext&, const Instruction& user, const Sharding* s,
                             const Instruction& x) {
  int64_t k = OperandIndex(user, x);
  if (k >= user.shape()->leaf_count()) return nullptr;
  const Shape* result = user.shape()->IsTuple() ? user.shape()->element(k) : user.shape();
  return SameDims(result, x.shape()) ? ResultElement(user, s, k) : nullptr;
}

}  // namespace gshard
