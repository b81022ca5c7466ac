#include "core/propagation/shardy/markers.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/shardy_attribute.h"
#include "ir/traversal.h"

namespace gshard::shardy {
namespace {

bool IsConstraint(const Instruction& x) {
  return IsCustomCallTo(x, kShardingTarget) && x.operand_count() == 1;
}

// A slot, a use; only of constraints and of what they constrain. The root has one more.
class ConstraintUses {
 public:
  ConstraintUses(const Computation& computation, size_t instruction_limit)
      : uses_of_(instruction_limit, -1) {
    for (const Instruction* x : computation.instructions()) {
      if (!IsConstraint(*x)) continue;
      for (const Instruction* of : {x, static_cast<const Instruction*>(x->operand(0))}) {
        int& at = uses_of_[of->id()];
        if (at >= 0) continue;
        at = static_cast<int>(uses_.size());
        uses_.emplace_back();
      }
    }
    for (Instruction* x : computation.instructions()) {
      for (const Instruction* operand : x->operands()) {
        if (const int at = uses_of_[operand->id()]; at >= 0) uses_[At(at)].push_back(x);
      }
    }
    if (const int at = uses_of_[computation.root()->id()]; at >= 0) {
      uses_[At(at)].push_back(nullptr);
    }
  }
  const std::vector<Instruction*>& Of(const Instruction* x) const {
    return uses_[At(uses_of_[x->id()])];
  }

 private:
  std::vector<int> uses_of_;  // by instruction id: where in uses_; -1: nobody asks
  std::vector<std::vector<Instruction*>> uses_;
};

bool FollowChainsIn(Computation& computation, size_t instruction_limit) {
  const std::span<Instruction* const> list = computation.instructions();
  const auto continues_chain = [](const Instruction* x) {
    return IsConstraint(*x) && IsConstraint(*x->operand(0));
  };
  if (std::ranges::none_of(list, continues_chain)) return false;
  const ConstraintUses uses(computation, instruction_limit);
  bool changed = false;
  for (size_t i = 0; i < list.size(); ++i) {
    Instruction* first = list[i];
    if (!IsConstraint(*first) || IsConstraint(*first->operand(0))) continue;
    Instruction* head = first->operand(0);
    int constraints = 0;
    for (const Instruction* user : uses.Of(head)) {
      if (user != nullptr && (IsConstraint(*user) || IsRegionMarker(*user))) ++constraints;
    }
    Instruction* last = first;
    while (uses.Of(last).size() == 1 && uses.Of(last)[0] != nullptr &&
           IsConstraint(*uses.Of(last)[0])) {
      last = uses.Of(last)[0];
    }
    if (constraints != 1 || last == first) continue;
    bool behind = false;
    for (size_t k = i; k < list.size(); ++k) {
      if (behind) {
        for (int64_t o = 0; o < list[k]->operand_count(); ++o) {
          if (list[k]->operand(o) != head) continue;
          list[k]->set_operand(o, last);
          changed = true;
        }
      }
      behind = behind || list[k] == last;
    }
  }
  return changed;
}

}  // namespace

bool FollowConstraintChains(Module& module) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    changed |= FollowChainsIn(*computation, module.instruction_limit());
  }
  return changed;
}

bool ReplaceMarkers(Module& module, PropagationFindings* findings) {
  std::vector<Instruction*> replacement;  // by instruction id; those made here have none
  const auto replacement_of = [&](const Instruction* x) {
    return x->id() < replacement.size() ? replacement[x->id()] : nullptr;
  };
  for (Computation* computation : module.computations()) {
    const auto is_marker = [](const Instruction* x) {
      return x->opcode() == Opcode::kCustomCall && IsConstraint(*x);
    };
    if (std::ranges::none_of(computation->instructions(), is_marker)) continue;
    if (replacement.empty()) replacement.resize(module.instruction_limit(), nullptr);
    // New instructions are appended to the computation meanwhile.
    const std::vector<Instruction*> given(computation->instructions().begin(),
                                          computation->instructions().end());
    std::vector<Instruction*> list;
    list.reserve(given.size());
    for (Instruction* x : given) {
      if (!is_marker(x)) {
        list.push_back(x);
        continue;
      }
      Instruction* const operands[] = {x->operand(0)};
      Instruction* copy =
          module.Add(x->parent(), Opcode::kCopy, x->name(), x->shape(), operands, NoAttributes{});
      copy->set_metadata(x->metadata());
      copy->set_frontend_attributes(x->frontend_attributes());
      copy->set_extras(x->extras());
      copy->set_source(x->source());
      copy->set_sharding(x->sharding());
      replacement[x->id()] = copy;
      list.push_back(copy);
    }
    const auto resolve = [&](Instruction* x) {
      Instruction* copy = replacement_of(x);
      return copy == nullptr ? x : copy;
    };
    for (Instruction* x : list) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        if (Instruction* copy = replacement_of(x->operand(i))) x->set_operand(i, copy);
      }
      if (x->control_predecessors().empty()) continue;
      std::vector<Instruction*> before;
      for (Instruction* p : x->control_predecessors()) before.push_back(resolve(p));
      Instruction::Extras extras = *x->extras();
      extras.control_predecessors = module.arena().Copy(before);
      x->set_extras(module.arena().New<Instruction::Extras>(extras));
    }
    Instruction* root = resolve(computation->root());
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
  }
  if (findings != nullptr) {
    for (PropagationFindings::Conflict& conflict : findings->conflicts) {
      for (const Instruction** x : {&conflict.annotated, &conflict.neighbour}) {
        if (const Instruction* copy = replacement_of(*x)) *x = copy;
      }
    }
  }
  return !replacement.empty();
}

bool DropShardingAttributes(Module& module) {
  bool changed = false;
  std::unordered_map<std::string_view, std::string_view> without;  // many have the same text
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const std::string_view before = x->frontend_attributes();
      if (before.find("xla.sdy.sharding") == std::string_view::npos) continue;
      const auto [it, fresh] = without.try_emplace(before);
      if (fresh) {
        const auto is_sharding = [](std::string_view key) { return key == "xla.sdy.sharding"; };
        it->second = WithoutFrontendAttributes(module.arena(), before, is_sharding);
      }
      x->set_frontend_attributes(it->second);
      changed |= it->second != before;
    }
  }
  return changed;
}

}  // namespace gshard::shardy
