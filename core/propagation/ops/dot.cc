// Dot and everything that contracts like one: batch and free dims pass, contracting dims do not.
#include "core/propagation/dot_dims.h"
#include "core/propagation/improvement.h"
#include "core/propagation/rules.h"

namespace gshard {
namespace {

// What the nearest sharded instruction down a chain of single users would ask of `x`; null if the
// chain forks or ends first.
const Sharding* LookAhead(const PropagationContext& c, const Instruction& x) {
  std::vector<const Instruction*> chain = {&x};
  while (chain.size() == 1 || c.of(chain.back()) == nullptr) {
    std::span<Instruction* const> users = c.users(chain.back());
    if (users.size() != 1) return nullptr;
    chain.push_back(users[0]);
  }
  const Sharding* s = c.of(chain.back());
  for (size_t i = chain.size() - 1; i > 0 && s != nullptr; --i) {
    s = RuleOf(chain[i]->opcode()).backward(c, *chain[i], s, *chain[i - 1]);
    if (s != nullptr) s = s->canonical;
  }
  return s;
}

}  // namespace

void DotLikeForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const DotDims& dims = c.dot_dims().Of(x);
  const Sharding* current = c.of(&x);
  const Sharding* candidate[2] = {nullptr, nullptr};
  for (int k = 0; k < 2; ++k) {
    const Sharding* s = c.NotMaximal(x.operand(k));
    if (s == nullptr) continue;
    const Sharding* mapped = c.derive().MapDims(s, dims.operand_to_output[k], x.shape()->rank());
    if (mapped == nullptr) continue;
    if (Improve(c.derive(), x.shape(), current, mapped, c.may_combine(), false) != nullptr) {
      candidate[k] = mapped;
    }
  }
  int first = 0;
  if (candidate[0] != nullptr && candidate[1] != nullptr) {
    first = x.operand(0)->shape()->byte_size() < x.operand(1)->shape()->byte_size() ? 1 : 0;
    if (const Sharding* ahead = LookAhead(c, x)) {
      bool refines[2];
      for (int k = 0; k < 2; ++k) {
        refines[k] = c.derive().IsSubTiling(ahead, candidate[k], x.shape());
      }
      if (refines[0] != refines[1]) first = refines[0] ? 0 : 1;
    }
  }
  offers.Add(candidate[first], x.operand(first), false);
  offers.Add(candidate[1 - first], x.operand(1 - first), false);
}

const Sharding* DotLikeBackward(const PropagationContext& c, const Instruction& user,
                                const Sharding* s, const Instruction& x) {
  const DotDims& dims = c.dot_dims().Of(user);
  int64_t k = OperandIndex(user, x);
  int64_t rank = x.shape()->rank();
  const Sharding* asked = c.derive().MapDims(s, dims.output_to_operand[k], rank);
  const Sharding* other = c.NotMaximal(user.operand(1 - k));
  if (other == nullptr) return asked;
  const Sharding* matching = c.derive().MapDims(other, dims.other_to_operand[k], rank);
  if (matching == nullptr) return asked;
  if (asked == nullptr) return matching;
  const Sharding* merged = MergeIntoOffer(c.derive(), asked, matching, c.may_combine());
  return merged != nullptr ? merged : asked;
}

}  // namespace gshard
