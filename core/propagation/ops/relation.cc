// By the relation of an operation's dims (core/op_dims): calls that Python code partitions, whose
// rule of sharding is such a relation, batch norms, and where options ask for it operations that
// GSPMD has no rule for.
#include <algorithm>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "core/propagation/rules.h"

namespace gshard {
namespace {

// Dims of `from` whose one factor is that of a dim of `to` hand it their axes.
const Sharding* AlongRelation(const PropagationContext& c, const Sharding* s,
                              const std::vector<FactorList>& from,
                              const std::vector<FactorList>& to) {
  if (!s->IsTiled()) return nullptr;
  std::vector<int64_t> from_dims, to_dims;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto it = std::ranges::find(to, from[i]);
    if (from[i].size() != 1 || it == to.end()) continue;
    from_dims.push_back(static_cast<int64_t>(i));
    to_dims.push_back(it - to.begin());
  }
  if (from_dims.empty()) return nullptr;
  return c.derive().AlongDims(s, from_dims, to_dims, static_cast<int64_t>(to.size()));
}

using MayPass = bool (*)(const PropagationContext& c, const Instruction& x, const Shape* from,
                         const Shape* to);

bool AllPass(const PropagationContext&, const Instruction&, const Shape*, const Shape*) {
  return true;
}

// Vectors over the features are spread over whole arrays: late, as broadcasts are, and earlier
// backward than forward.
bool IsSpread(const Shape* from, const Shape* to) { return from->rank() < to->rank(); }
bool PassesBatchNormForward(const PropagationContext& c, const Instruction& x, const Shape* from,
                            const Shape* to) {
  const bool is_whole = from->rank() == x.operand(0)->shape()->rank();
  return is_whole || (IsSpread(from, to) && c.level() >= 3);
}
bool PassesBatchNormBackward(const PropagationContext& c, const Instruction& x, const Shape* from,
                             const Shape* to) {
  const bool is_whole = to->rank() == x.operand(0)->shape()->rank();
  return is_whole || (IsSpread(to, from) && c.level() >= 2);
}

const Shape* ResultShape(const Instruction& x, size_t i) {
  return x.shape()->IsTuple() ? x.shape()->element(static_cast<int64_t>(i)) : x.shape();
}

void Forward(const PropagationContext& c, const Instruction& x, Offers& offers, MayPass may_pass) {
  const DimRelation relation = RelationOf(x);
  if (!relation.relates) return;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    const Instruction* operand = x.operand(static_cast<int64_t>(i));
    const Sharding* s = operand->shape()->IsArray() ? c.NotMaximal(operand) : nullptr;
    if (s == nullptr) continue;
    for (size_t r = 0; r < relation.results.size(); ++r) {
      if (!may_pass(c, x, operand->shape(), ResultShape(x, r))) continue;
      const int64_t leaf = x.shape()->IsTuple() ? static_cast<int64_t>(r) : -1;
      offers.Add(AlongRelation(c, s, relation.operands[i], relation.results[r]), operand, true,
                 leaf);
    }
  }
}

const Sharding* Backward(const PropagationContext& c, const Instruction& user, const Sharding* s,
                         const Instruction& x, MayPass may_pass) {
  const DimRelation relation = RelationOf(user);
  if (!relation.relates || !x.shape()->IsArray()) return nullptr;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    if (user.operand(static_cast<int64_t>(i)) != &x) continue;
    for (size_t r = 0; r < relation.results.size(); ++r) {
      if (s->IsTuple() && r >= s->elements.size()) break;
      if (!may_pass(c, user, ResultShape(user, r), x.shape())) continue;
      const Sharding* of = s->IsTuple() ? s->elements[r] : s;
      const Sharding* asked = AlongRelation(c, of, relation.results[r], relation.operands[i]);
      if (asked != nullptr) return asked;
    }
  }
  return nullptr;
}

}  // namespace

void RelationForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  Forward(c, x, offers, AllPass);
}

const Sharding* RelationBackward(const PropagationContext& c, const Instruction& user,
                                 const Sharding* s, const Instruction& x) {
  return Backward(c, user, s, x, AllPass);
}

void BatchNormForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  Forward(c, x, offers, PassesBatchNormForward);
}

const Sharding* BatchNormBackward(const PropagationContext& c, const Instruction& user,
                                  const Sharding* s, const Instruction& x) {
  return Backward(c, user, s, x, PassesBatchNormBackward);
}

}  // namespace gshard
