// By the relation of an operation's dims (core/op_dims): calls that Python code partitions, whose
// rule of sharding is such a relation, and where options ask for it operations that GSPMD has no
// rule for.
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

}  // namespace

void RelationForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  const DimRelation relation = RelationOf(x);
  if (!relation.relates) return;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    const Instruction* operand = x.operand(static_cast<int64_t>(i));
    const Sharding* s = operand->shape()->IsArray() ? c.Partitioned(operand) : nullptr;
    if (s == nullptr) continue;
    for (size_t r = 0; r < relation.results.size(); ++r) {
      const int64_t leaf = x.shape()->IsTuple() ? static_cast<int64_t>(r) : -1;
      offers.Add(AlongRelation(c, s, relation.operands[i], relation.results[r]), operand, true,
                 leaf);
    }
  }
}

const Sharding* RelationBackward(const PropagationContext& c, const Instruction& user,
                                 const Sharding* s, const Instruction& x) {
  const DimRelation relation = RelationOf(user);
  if (!relation.relates || !x.shape()->IsArray()) return nullptr;
  for (size_t i = 0; i < relation.operands.size(); ++i) {
    if (user.operand(static_cast<int64_t>(i)) != &x) continue;
    for (size_t r = 0; r < relation.results.size(); ++r) {
      if (s->IsTuple() && r >= s->elements.size()) break;
      const Sharding* of = s->IsTuple() ? s->elements[r] : s;
      const Sharding* asked = AlongRelation(c, of, relation.results[r], relation.operands[i]);
      if (asked != nullptr) return asked;
    }
  }
  return nullptr;
}

}  // namespace gshard
