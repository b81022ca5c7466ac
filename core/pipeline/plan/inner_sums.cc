#include "core/pipeline/plan/inner_sums.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/pipeline/plan/clone.h"
#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"
#include "core/transforms/collectives/while_loop_all_reduce_code_motion.h"
#include "ir/constant_fill.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

bool AddsUp(const Instruction* x) {
  return IsPlainCollective(x, Opcode::kAllReduce) && ReductionOf(x) == Opcode::kAdd;
}

bool HasSums(const Computation& computation) {
  return std::ranges::any_of(computation.instructions(), [](const Instruction* x) {
    return AddsUp(x) || (IsControlFlow(x->opcode()) &&
                         std::ranges::any_of(x->called(), [](const Computation* called) {
                           return HasSums(*called);
                         }));
  });
}

// Gives loops and branches with sums computations that nobody else runs. True if there are any.
bool SeparateSums(Module& module) {
  std::unordered_set<const Computation*> owned;
  std::vector<Computation*> open = {module.entry()};
  while (!open.empty()) {
    Computation* computation = open.back();
    open.pop_back();
    for (Instruction* x : computation->instructions()) {
      if (!IsControlFlow(x->opcode()) ||
          std::ranges::none_of(x->called(), [](const auto* called) { return HasSums(*called); })) {
        continue;
      }
      for (int64_t i = 0; i < static_cast<int64_t>(x->called().size()); ++i) {
        if (!owned.insert(x->called(i)).second) {
          x->set_called(i, CloneComputation(module, *x->called(i)));
          owned.insert(x->called(i));
        }
        open.push_back(x->called(i));
      }
    }
  }
  if (!owned.empty()) module.SetComputations(CallPostOrder(module));
  return !owned.empty();
}

// Is `x` linear in its first operand, and a sum over it if that is one?
bool IsLinear(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kTranspose:
    case Opcode::kReshape:
    case Opcode::kCopy:
    case Opcode::kBroadcast:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kNegate:
      return true;
    case Opcode::kPad:
      return IsFilledWith(x->operand(1), 0.0);
    case Opcode::kReduce:
      return x->operand_count() == 2 && CombinerOf(x->called(0)) == Opcode::kAdd &&
             IsFilledWith(x->operand(1), 0.0);
    default:  // gradients of weights are rearranged and added up
      return false;
  }
}

// An operand that is a sum over micro-batches.
struct SummedOperand {
  Instruction* reader = nullptr;
  int64_t operand = 0;
  Instruction* sum() const { return reader->operand(operand); }
};

// Whether operand i of `reader` is linear in sums that nobody else reads, or zeros: these sums.
bool FindSums(Instruction* reader, int64_t i, const Users& users,
              std::vector<SummedOperand>& sums) {
  Instruction* x = reader->operand(i);
  if (IsFilledWith(x, 0.0)) return true;
  if (users.of(x).size() != 1) return false;
  if (AddsUp(x)) {
    sums.push_back({reader, i});
    return SameCommunication(sums[0].sum(), x);
  }
  if (x->opcode() == Opcode::kAdd || x->opcode() == Opcode::kSubtract) {
    return FindSums(x, 0, users, sums) && FindSums(x, 1, users, sums);
  }
  return IsLinear(x) && FindSums(x, 0, users, sums);
}

class BranchSums {
 public:
  explicit BranchSums(Module& module) : module_(module) {}

  bool Lift() {
    for (Computation* computation : CallPostOrder(module_)) {
      const Users users(*computation);
      for (Instruction* x : computation->instructions()) {
        if (x->opcode() == Opcode::kConditional && x != computation->root()) LiftOf(x, users);
      }
      if (lifted_.empty()) continue;
      any_ = true;
      InsertAfterEach(module_, computation, [&](Instruction* x, Builder& builder) -> Instruction* {
        if (x->opcode() != Opcode::kGetTupleElement) return x;
        const auto found =
            lifted_.find({x->operand(0), x->attributes<GetTupleElementAttributes>().index});
        return found == lifted_.end() ? x : SameCollectiveOn(builder, found->second, x);
      });
      lifted_.clear();
    }
    return any_;
  }

 private:
  // Of a conditional whose results are read one by one.
  void LiftOf(Instruction* conditional, const Users& users) {
    if (!conditional->shape()->IsTuple() ||
        std::ranges::any_of(users.of(conditional), [](const Instruction* user) {
          return user->opcode() != Opcode::kGetTupleElement;
        })) {
      return;
    }
    std::vector<Users> of_branch;
    for (const Computation* branch : conditional->called()) of_branch.emplace_back(*branch);
    for (size_t i = 0; i < conditional->shape()->elements().size(); ++i) {
      LiftElement(conditional, static_cast<int64_t>(i), of_branch);
    }
  }

  void LiftElement(Instruction* conditional, int64_t i, const std::vector<Users>& of_branch) {
    std::vector<SummedOperand> sums;
    for (size_t k = 0; k < of_branch.size(); ++k) {
      Instruction* root = conditional->called(static_cast<int64_t>(k))->root();
      if (root->opcode() != Opcode::kTuple || !FindSums(root, i, of_branch[k], sums)) return;
    }
    if (sums.empty()) return;
    lifted_[{conditional, i}] = sums[0].sum();
    for (const SummedOperand& of : sums) of.reader->set_operand(of.operand, of.sum()->operand(0));
  }

  Module& module_;
  // By conditional and element: a sum that it ended in.
  std::map<std::pair<const Instruction*, int64_t>, const Instruction*> lifted_;
  bool any_ = false;
};

// In loops and branches what is made of a sum by moving or cutting its elements becomes a sum of
// its own: gradients of the gates of a recurrent layer are slices of one product.
void SumEachPart(Module& module) {
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    const bool is_part = x->parent() != module.entry() && x->shape()->IsArray() && IsLinear(x) &&
                         AddsUp(x->operand(0));
    if (!is_part) return x;
    const Instruction* sum = x->operand(0);
    std::vector<Instruction*> of_term(x->operands().begin(), x->operands().end());
    of_term[0] = sum->operand(0);  // others are zeros
    Builder& builder = rewriter.builder();
    return SameCollectiveOn(builder, sum, builder.CloneWith(x, of_term, x->shape()));
  });
}

}  // namespace

void MoveSumsOut(Module& module) {
  if (SeparateSums(module)) {
    SumEachPart(module);
    BranchSums(module).Lift();
  }
  MoveAllReducesOutOfLoops(module);
  // What has left a loop within a branch now ends the branch.
  if (BranchSums(module).Lift()) MoveAllReducesOutOfLoops(module);
}

}  // namespace gshard::pipeline
