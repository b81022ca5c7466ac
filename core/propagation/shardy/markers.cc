#include "core/propagation/shardy/markers.h"

#include <algorithm>
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
  const auto continues_chain = [](const Instruction* x) {
    return IsConstraint(*x) && IsConstraint(*x->operand(0));
  };
  if (std::ranges::none_of(list, continues_chain)) return false;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> uses;  // a slot, a use
  for (Instruction* x : list) {
    for (Instruction* operand : x->operands()) uses[operand].push_back(x);
  }
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

bool ReplaceMarkers(Module& module, PropagationFindings* findings) {
  std::unordered_map<const Instruction*, Instruction*> replacement;
  for (Computation* computation : module.computations()) {
    const auto is_marker = [](const Instruction* x) {
      return x->opcode() == Opcode::kCustomCall &&
             (IsConstraint(*x) || IsCustomCallTo(*x, kShardBarrierFrom) ||
              IsCustomCallTo(*x, kShardBarrierTo));
    };
    if (std::ranges::none_of(computation->instructions(), is_marker)) continue;
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
      replacement[x] = copy;
      list.push_back(copy);
    }
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
  if (findings != nullptr) {
    for (PropagationFindings::Conflict& conflict : findings->conflicts) {
      for (const Instruction** x : {&conflict.annotated, &conflict.neighbour}) {
        if (const auto it = replacement.find(*x); it != replacement.end()) *x = it->second;
      }
    }
  }
  return !replacement.empty();
}

}  // namespace gshard::shardy
