#include "core/propagation/shardy/markers.h"

#include <unordered_map>
#include <vector>

#include "ir/custom_call.h"
#include "ir/traversal.h"

namespace gshard::shardy {
namespace {

bool IsConstraint(const Instruction& x) {
  return IsCustomCallTo(x, kShardingTarget) && x.operand_count() == 1;
}

bool FollowChainsIn(Computation& computation) {
  const std::span<Instruction* const> list = computation.instructions();
  std::unordered_map<const Instruction*, std::vector<Instruction*>> uses;  // a slot, a use
  bool any = false;
  for (Instruction* x : list) {
    any = any || (IsConstraint(*x) && IsConstraint(*x->operand(0)));
    for (Instruction* operand : x->operands()) uses[operand].push_back(x);
  }
  if (!any) return false;
  uses[computation.root()].push_back(nullptr);
  bool changed = false;
  for (size_t i = 0; i < list.size(); ++i) {
    Instruction* first = list[i];
    if (!IsConstraint(*first) || IsConstraint(*first->operand(0))) continue;
    Instruction* head = first->operand(0);
    int constraints = 0;
    for (const Instruction* user : uses[head]) {
      if (user != nullptr && (IsConstraint(*user) || IsRegionMarker(*user))) ++constraints;
    }
    Instruction* last = first;
    while (uses[last].size() == 1 && uses[last][0] != nullptr && IsConstraint(*uses[last][0])) {
      last = uses[last][0];
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
  for (Computation* computation : module.computations()) changed |= FollowChainsIn(*computation);
  return changed;
}

bool ReplaceMarkers(Module& module) {
  std::unordered_map<const Instruction*, Instruction*> replacement;
  for (Computation* computation : module.computations()) {
    // New instructions are appended to the computation meanwhile.
    const std::vector<Instruction*> given(computation->instructions().begin(),
                                          computation->instructions().end());
    std::vector<Instruction*> list;
    bool touched = false;
    for (Instruction* x : given) {
      if (!IsConstraint(*x) && !IsCustomCallTo(*x, kShardBarrierFrom) &&
          !IsCustomCallTo(*x, kShardBarrierTo)) {
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
      replacement[x] = copy;
      list.push_back(copy);
      touched = true;
    }
    if (!touched) continue;
    const auto resolve = [&](Instruction* x) {
      const auto it = replacement.find(x);
      return it == replacement.end() ? x : it->second;
    };
    for (Instruction* x : list) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, resolve(x->operand(i)));
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
  return !replacement.empty();
}

}  // namespace gshard::shardy
