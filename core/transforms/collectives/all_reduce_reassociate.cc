#include "core/transforms/collectives/all_reduce_reassociate.h"

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"
#include "ir/attribute_equality.h"

namespace gshard {
namespace {

constexpr int kMaxMovements = 4;

// Linear, and the same on each device: what a sum may be taken behind.
bool CommutesWithSums(Opcode opcode) {
  return opcode == Opcode::kReshape || opcode == Opcode::kTranspose || opcode == Opcode::kSlice;
}

// A term that is a reduction, moved about afterwards.
struct ReducedTerm {
  Instruction* reduction = nullptr;
  std::vector<Instruction*> movements;  // the last one first
};

std::optional<ReducedTerm> FindReduction(Instruction* term, Opcode combiner,
                                         const Rewriter& rewriter) {
  ReducedTerm found;
  while (CommutesWithSums(term->opcode()) && rewriter.IsOnlyUse(term) &&
         found.movements.size() < kMaxMovements) {
    found.movements.push_back(term);
    term = term->operand(0);
  }
  bool is_reduction = IsPlainCollective(term, Opcode::kAllReduce) ||
                      IsPlainCollective(term, Opcode::kReduceScatter);
  if (!is_reduction || !rewriter.IsOnlyUse(term) || ReductionOf(term) != combiner) {
    return std::nullopt;
  }
  found.reduction = term;
  return found;
}

bool SameMovements(const ReducedTerm& a, const ReducedTerm& b) {
  if (a.movements.size() != b.movements.size()) return false;
  for (size_t i = 0; i < a.movements.size(); ++i) {
    if (!Compatible(a.movements[i]->shape(), b.movements[i]->shape())) return false;
    if (!SameAttributes(*a.movements[i], *b.movements[i])) return false;
  }
  return Compatible(a.reduction->operand(0)->shape(), b.reduction->operand(0)->shape()) &&
         SameCommunication(a.reduction, b.reduction);
}

// The term of both, reduced once.
Instruction* Joined(Builder& builder, Opcode combiner, const ReducedTerm& a, const ReducedTerm& b) {
  Instruction* local = builder.Binary(combiner, a.reduction->operand(0), b.reduction->operand(0));
  Instruction* value = SameCollectiveOn(builder, a.reduction, local);
  for (auto movement = a.movements.rbegin(); movement != a.movements.rend(); ++movement) {
    value = builder.CloneWith(*movement, {&value, 1}, (*movement)->shape());
  }
  return value;
}

Instruction* Reassociate(Instruction* x, Rewriter& rewriter) {
  if (x->operand_count() != 2 || !HasFlag(x->opcode(), kCommutative)) return x;
  const Opcode combiner = x->opcode();
  for (int64_t side = 0; side < 2; ++side) {
    std::optional<ReducedTerm> term = FindReduction(x->operand(side), combiner, rewriter);
    if (!term) continue;
    Instruction* other = x->operand(1 - side);
    if (other == x->operand(side)) return x;
    if (auto partner = FindReduction(other, combiner, rewriter)) {
      return SameMovements(*term, *partner) ? Joined(rewriter.builder(), combiner, *term, *partner)
                                            : x;
    }
    // A chain of terms, of which one is reduced.
    if (other->opcode() != combiner || !rewriter.IsOnlyUse(other)) continue;
    for (int64_t inner = 0; inner < 2; ++inner) {
      auto partner = FindReduction(other->operand(inner), combiner, rewriter);
      if (!partner || !SameMovements(*partner, *term)) continue;
      Instruction* joined = Joined(rewriter.builder(), combiner, *partner, *term);
      return rewriter.builder().Binary(combiner, other->operand(1 - inner), joined);
    }
  }
  return x;
}

}  // namespace

bool ReassociateAllReduces(Module& module) { return RewriteModule(module, Reassociate); }

}  // namespace gshard
