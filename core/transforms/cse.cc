#include "core/transforms/cse.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/transforms/rewriter.h"
#include "ir/attribute_equality.h"
#include "ir/hash.h"
#include "ir/op_traits.h"
#include "tsl/robin_set.h"

namespace gshard {
namespace {

// A copy stays: memory of its own is what it is for. Equal collectives do the same work twice.
bool MayMerge(const Instruction* x) {
  if (IsControlFlow(x->opcode()) || x->opcode() == Opcode::kCopy) return false;
  return MayBeRepeated(*x) || (IsCollective(x->opcode()) && PurityOf(x->opcode()) == Purity::kPure);
}

bool SameComputations(const Instruction* a, const Instruction* b) {
  if (a->called().size() != b->called().size()) return false;
  for (int64_t i = 0; i < static_cast<int64_t>(a->called().size()); ++i) {
    if (a->called(i) == b->called(i)) continue;
    std::optional<Opcode> combiner = CombinerOf(a->called(i));
    if (!combiner || combiner != CombinerOf(b->called(i))) return false;
    if (!Compatible(a->called(i)->root()->shape(), b->called(i)->root()->shape())) return false;
  }
  return true;
}

bool CommutesInOperands(const Instruction* x) { return HasFlag(x->opcode(), kCommutative); }

struct HashExpression {
  size_t operator()(const Instruction* x) const {
    size_t hash = HashPointer(HashOfAttributes(*x), x->shape());
    if (CommutesInOperands(x)) {
      return HashCombine(hash, x->operand(0)->id() + uint64_t{x->operand(1)->id()});
    }
    for (const Instruction* operand : x->operands()) hash = HashCombine(hash, operand->id());
    return hash;
  }
};

struct SameExpression {
  bool operator()(const Instruction* a, const Instruction* b) const {
    if (a->opcode() != b->opcode() || a->shape() != b->shape()) return false;
    bool same_operands = std::ranges::equal(a->operands(), b->operands());
    if (!same_operands && CommutesInOperands(a)) {
      same_operands = a->operand(0) == b->operand(1) && a->operand(1) == b->operand(0);
    }
    return same_operands && a->sharding() == b->sharding() && SameAttributes(*a, *b) &&
           SameComputations(a, b);
  }
};

}  // namespace

bool MergeCommonSubexpressions(Module& module) {
  const Computation* current = nullptr;
  // Hashes are kept, so that a set that grows looks at no instruction again.
  tsl::robin_set<Instruction*, HashExpression, SameExpression, std::allocator<Instruction*>,
                 /*StoreHash=*/true>
      seen;
  return RewriteModule(module, [&](Instruction* x, Rewriter&) {
    if (x->parent() != current) {
      current = x->parent();
      seen.clear();
    }
    return MayMerge(x) ? *seen.insert(x).first : x;
  });
}

}  // namespace gshard
