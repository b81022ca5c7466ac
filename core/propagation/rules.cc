#include "core/propagation/rules.h"

#include <algorithm>

#include "ir/sharding_algebra.h"

namespace gshard {

bool IsAll(const Sharding* s, ShardingKind kind) {
  if (!s->IsTuple()) return s->kind == kind;
  if (s->elements.empty()) return false;
  return std::all_of(s->elements.begin(), s->elements.end(),
                     [&](const Sharding* e) { return e->kind == kind; });
}

bool Always(const PropagationContext&, const Instruction&) { return true; }
bool Never(const PropagationContext&, const Instruction&) { return false; }

void NothingForward(const PropagationContext&, const Instruction&, Offers&) {}

const Sharding* NothingBackward(const PropagationContext&, const Instruction&, const Sharding*,
                                const Instruction&) {
  return nullptr;
}

const Sharding* SameDimsBackward(const PropagationContext&, const Instruction& user,
                                 const Sharding* s, const Instruction& x) {
  const Shape* from = user.shape();
  const Shape* to = x.shape();
  if (from->IsArray() && to->IsArray()) return SameDims(from, to) ? s : nullptr;
  return Compatible(from, to) ? s : nullptr;
}

const Instruction* MostSpecificOperand(const PropagationContext& c, const Instruction& x) {
  const Instruction* best = nullptr;
  const Sharding* best_sharding = nullptr;
  for (const Instruction* operand : x.operands()) {
    const Sharding* s = c.NotMaximal(operand);
    if (s == nullptr || s == best_sharding) continue;
    if (best == nullptr || IsMoreSpecific(s, best_sharding)) {
      best = operand;
      best_sharding = s;
    }
  }
  return best;
}

void MostSpecificForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (const Instruction* best = MostSpecificOperand(c, x)) offers.Add(c.of(best), best, true);
}

void FirstOperandForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (x.operand_count() > 0) offers.Add(c.NotMaximal(x.operand(0)), x.operand(0), true);
}

int64_t OperandIndex(const Instruction& user, const Instruction& x) {
  for (int64_t i = 0; i < user.operand_count(); ++i) {
    if (user.operand(i) == &x) return i;
  }
  throw InternalError("not an operand of this user");
}

const Sharding* ResultElement(const Instruction& user, const Sharding* s, int64_t index) {
  if (!user.shape()->IsTuple()) return s;
  return s->elements[static_cast<size_t>(LeavesOfElement(user.shape(), index).first)];
}

}  // namespace gshard
