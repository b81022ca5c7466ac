#include "core/transforms/collectives/while_loop_invariant_code_motion.h"

#include <algorithm>
#include <unordered_set>

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

bool IsHoistable(const Instruction* x) {
  for (Opcode opcode : {Opcode::kAllGather, Opcode::kAllReduce, Opcode::kReduceScatter,
                        Opcode::kAllToAll, Opcode::kCollectivePermute}) {
    if (IsPlainCollective(x, opcode)) return true;
  }
  return false;
}

// Operations cheap enough to be done once more before the loop.
bool IsCheap(const Instruction* x) {
  const Opcode opcode = x->opcode();
  if (PurityOf(opcode) != Purity::kPure) return false;
  const Motion motion = MotionOf(opcode);
  return IsElementwise(opcode) || MovesOneArray(opcode) || motion == Motion::kMakes ||
         motion == Motion::kJoins;
}

class LoopHoist {
 public:
  LoopHoist(const LoopParts& parts, Builder& builder) : parts_(parts), builder_(builder) {}

  bool Run(Module& module) {
    FindInvariants();
    FindCandidates();
    if (hoisted_.empty()) return false;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts_.size(); ++i) inits.push_back(parts_.Init(builder_, i));
    for (Instruction* x : hoisted_) inits.push_back(Before(x));
    const int64_t old_size = parts_.size();
    SetState(parts_, builder_, inits);

    std::unordered_map<const Instruction*, int64_t> place;
    for (Instruction* x : hoisted_) place.emplace(x, old_size + static_cast<int64_t>(place.size()));
    Rewriter(module).Run(parts_.body, [&](Instruction* x, Rewriter& rewriter) {
      auto found = place.find(x);
      return found == place.end()
                 ? x
                 : rewriter.builder().GetTupleElement(parts_.body_state, found->second);
    });
    Builder body(module, parts_.body);
    std::vector<Instruction*> next(parts_.body->root()->operands().begin(),
                                   parts_.body->root()->operands().end());
    for (size_t i = 0; i < hoisted_.size(); ++i) {
      next.push_back(body.GetTupleElement(parts_.body_state, old_size + static_cast<int64_t>(i)));
    }
    parts_.body->set_root(body.Tuple(next));
    return true;
  }

 private:
  void FindInvariants() {
    for (Instruction* x : parts_.body->instructions()) {
      if (!x->control_predecessors().empty()) continue;
      if (auto element = ElementOf(x, parts_.body_state)) {
        if (ElementOf(parts_.Next(*element), parts_.body_state) == element) invariant_.insert(x);
        continue;
      }
      if (!IsHoistable(x) && !IsCheap(x)) continue;
      if (std::ranges::all_of(x->operands(),
                              [&](Instruction* operand) { return invariant_.contains(operand); })) {
        invariant_.insert(x);
      }
    }
  }

  // Invariant collectives that something other than an invariant collective needs.
  void FindCandidates() {
    std::unordered_set<const Instruction*> seen;
    std::vector<Instruction*> stack;
    auto visit = [&](Instruction* x) {
      if (seen.insert(x).second) stack.push_back(x);
    };
    for (Instruction* x : parts_.body->instructions()) {
      if (!invariant_.contains(x)) visit(x);
    }
    while (!stack.empty()) {
      Instruction* x = stack.back();
      stack.pop_back();
      if (invariant_.contains(x) && IsHoistable(x)) {
        hoisted_.push_back(x);
        continue;
      }
      for (Instruction* operand : x->operands()) visit(operand);
    }
    std::ranges::sort(hoisted_, {}, [](const Instruction* x) { return x->id(); });
  }

  // The value of an invariant before the loop.
  Instruction* Before(Instruction* wanted) {
    std::vector<Instruction*> stack = {wanted};
    while (!stack.empty()) {
      Instruction* x = stack.back();
      if (before_.contains(x)) {
        stack.pop_back();
        continue;
      }
      if (auto element = ElementOf(x, parts_.body_state)) {
        before_[x] = parts_.Init(builder_, *element);
        stack.pop_back();
        continue;
      }
      bool is_ready = true;
      for (Instruction* operand : x->operands()) {
        if (!before_.contains(operand)) {
          stack.push_back(operand);
          is_ready = false;
        }
      }
      if (!is_ready) continue;
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(before_.at(operand));
      before_[x] = IsHoistable(x) ? SameCollectiveOn(builder_, x, operands[0])
                                  : builder_.CloneWith(x, operands, x->shape());
      stack.pop_back();
    }
    return before_.at(wanted);
  }

  const LoopParts& parts_;
  Builder& builder_;
  std::unordered_set<const Instruction*> invariant_;
  std::vector<Instruction*> hoisted_;
  std::unordered_map<const Instruction*, Instruction*> before_;
};

}  // namespace

bool HoistInvariantCollectives(Module& module) {
  CallSites sites(module);
  bool has_hoisted = false;
  const bool changed = RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    if (std::optional<LoopParts> parts = PartsOf(x, sites)) {
      has_hoisted |= LoopHoist(*parts, rewriter.builder()).Run(module);
    }
    return x;
  });
  return changed || has_hoisted;
}

}  // namespace gshard
