// See value_steps.h.

#include "core/reduce/value_steps.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/propagation/propagation.h"
#include "core/reduce/edits.h"
#include "core/reduce/loop_steps.h"
#include "core/transforms/inline_calls.h"
#include "ir/builder.h"

namespace gshard::reduce {
namespace {

using Items = std::vector<Instruction*>;

// Users before what they use, as the steps go through them.
template <typename Wanted>
void AppendReversed(const Computation& computation, const Wanted& wanted, Items& items) {
  const auto list = computation.instructions();
  for (size_t i = list.size(); i-- > 0;) {
    if (wanted(list[i])) items.push_back(list[i]);
  }
}

// The sizes of what each instruction of the entry needs, itself included.
std::vector<std::pair<int64_t, Instruction*>> Cones(const Computation& entry) {
  std::vector<std::pair<int64_t, Instruction*>> cones;
  std::unordered_set<const Instruction*> seen;
  Items open;
  // One in so many is measured: each takes a walk over all that it needs.
  const size_t stride = entry.instructions().size() / 200 + 1;
  for (size_t i = 0; i < entry.instructions().size(); i += stride) {
    Instruction* root = entry.instructions()[i];
    if (root->opcode() == Opcode::kParameter || root->opcode() == Opcode::kConstant) continue;
    seen = {root};
    open = {root};
    while (!open.empty()) {
      const Instruction* x = open.back();
      open.pop_back();
      for (Instruction* operand : x->operands()) {
        if (seen.insert(operand).second) open.push_back(operand);
      }
    }
    cones.emplace_back(static_cast<int64_t>(seen.size()), root);
  }
  std::ranges::stable_sort(cones, {}, &std::pair<int64_t, Instruction*>::first);
  return cones;
}

constexpr int64_t kMaxCones = 24;

Items EntryValues(Module& module) {
  Items items;
  const std::unordered_set<const Instruction*> counters = CounterValues(module);
  AppendReversed(
      *module.entry(),
      [&](const Instruction* x) {
        return x->opcode() != Opcode::kParameter && x->opcode() != Opcode::kTuple &&
               (x->shape()->IsArray() || x->shape()->IsTuple()) && !counters.contains(x);
      },
      items);
  return items;
}

// Parameters stand in for `values` of the entry, with the shardings that are given. They take over
// the names, by which MakeInputProgram finds what values they have.
void ToParameters(Module& module, const Items& values,
                  const std::function<const Sharding*(const Instruction*)>& sharding_of) {
  Computation* entry = module.entry();
  std::unordered_map<const Instruction*, Instruction*> by;
  Builder builder(module, entry);
  for (Instruction* x : values) {
    Instruction* parameter = builder.Parameter(entry->parameter_count(), x->shape(), x->name());
    parameter->set_sharding(sharding_of(x));
    const std::string_view other_name = parameter->name();
    parameter->set_name(x->name());
    x->set_name(other_name);
    by[x] = parameter;
  }
  MoveToFront(*entry, by.size());
  Redirect(*entry, by);
}

// An operand of its shape, or the element that it takes from a tuple; null if there is none.
Instruction* SimplerValue(const Instruction* x) {
  if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
    return x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
  }
  for (Instruction* operand : x->operands()) {
    if (Compatible(operand->shape(), x->shape())) return operand;
  }
  return nullptr;
}

Items PassThrough(Module& module) {
  Items items;
  const std::unordered_set<const Instruction*> counters = CounterValues(module);
  const auto list = module.computations();
  for (size_t c = list.size(); c-- > 0;) {
    AppendReversed(
        *list[c],
        [&](const Instruction* x) { return SimplerValue(x) != nullptr && !counters.contains(x); },
        items);
  }
  return items;
}

// Computations whose zeros would make a loop endless, or change what a combiner is.
std::unordered_set<const Computation*> Untouched(const Module& module) {
  std::unordered_set<const Computation*> untouched = {module.entry()};
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const bool is_flow = x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional ||
                           x->opcode() == Opcode::kCall;
      for (size_t i = 0; i < x->called().size(); ++i) {
        if (!is_flow || (x->opcode() == Opcode::kWhile && i == 0)) untouched.insert(x->called()[i]);
      }
    }
  }
  return untouched;
}

Items InnerValues(Module& module) {
  Items items;
  const std::unordered_set<const Computation*> untouched = Untouched(module);
  for (Computation* computation : module.computations()) {
    if (untouched.contains(computation)) continue;
    AppendReversed(
        *computation,
        [&](const Instruction* x) {
          return x->opcode() != Opcode::kParameter && x->opcode() != Opcode::kConstant &&
                 x->opcode() != Opcode::kBroadcast && x->shape()->IsArray() &&
                 !IsInteger(x->shape()->dtype());
        },
        items);
  }
  return items;
}

Items ControlFlow(Module& module) {
  Items items;
  for (Computation* computation : module.computations()) {
    AppendReversed(
        *computation,
        [](const Instruction* x) {
          return x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional;
        },
        items);
  }
  return items;
}

Items TwinParameters(Module& module) {
  Items items;
  const auto parameters = module.entry()->parameters();
  for (size_t k = 1; k < parameters.size(); ++k) {
    for (size_t earlier = 0; earlier < k; ++earlier) {
      if (Compatible(parameters[k]->shape(), parameters[earlier]->shape()) &&
          parameters[k]->sharding() == parameters[earlier]->sharding()) {
        items.push_back(parameters[k]);
        break;
      }
    }
  }
  return items;
}

int64_t Size(const Items& items) { return static_cast<int64_t>(items.size()); }

}  // namespace

int64_t CountCones(Module& module) {
  const auto size = static_cast<int64_t>(Cones(*module.entry()).size());
  return std::min(size, kMaxCones);
}

bool ResultFromCone(Module& module, int64_t begin, int64_t end) {
  if (end != begin + 1) return false;  // one result
  const auto cones = Cones(*module.entry());
  const auto size = static_cast<int64_t>(cones.size());
  const int64_t at = size <= kMaxCones ? begin : begin * (size - 1) / (kMaxCones - 1);
  if (at >= size || cones[static_cast<size_t>(at)].second == module.entry()->root()) return false;
  module.entry()->set_root(cones[static_cast<size_t>(at)].second);
  return true;
}

int64_t CountResults(Module& module) {
  const Instruction* root = module.entry()->root();
  return root->opcode() == Opcode::kTuple ? root->operand_count() : 0;
}

bool DropResults(Module& module, int64_t begin, int64_t end) {
  Computation* entry = module.entry();
  const Instruction* root = entry->root();
  std::vector<Instruction*> kept;
  for (int64_t i = 0; i < root->operand_count(); ++i) {
    if (i < begin || i >= end) kept.push_back(root->operand(i));
  }
  if (kept.empty()) return false;
  if (kept.size() == 1) {
    entry->set_root(kept.front());
    return true;
  }
  Builder builder(module, entry);
  entry->set_root(builder.Add(Opcode::kTuple, kept, NoAttributes{}));
  return true;
}

int64_t CountEntryValues(Module& module) { return Size(EntryValues(module)); }

bool ValuesToParameters(Module& module, int64_t begin, int64_t end) {
  const Items chosen = Chosen(EntryValues(module), begin, end);
  ToParameters(module, chosen, [](const Instruction* x) { return x->sharding(); });
  return !chosen.empty();
}

bool ValuesToShardedParameters(Module& module, int64_t begin, int64_t end) {
  const std::unique_ptr<Module> inferred = module.Clone();
  if (!PropagateShardings(*inferred)) return false;
  std::unordered_map<std::string_view, const Sharding*> shardings;
  for (const Instruction* x : inferred->entry()->instructions()) {
    shardings[x->name()] = x->sharding();
  }
  const auto sharding_of = [&](const Instruction* x) {
    auto it = shardings.find(x->name());
    return it == shardings.end() ? x->sharding() : it->second;
  };
  const Items chosen = Chosen(EntryValues(module), begin, end);
  const bool says_more = std::ranges::any_of(
      chosen, [&](const Instruction* x) { return sharding_of(x) != x->sharding(); });
  if (says_more) ToParameters(module, chosen, sharding_of);
  return says_more;
}

int64_t CountPassThrough(Module& module) { return Size(PassThrough(module)); }

bool ValuesToOperands(Module& module, int64_t begin, int64_t end) {
  std::unordered_map<const Instruction*, Instruction*> by;
  for (Instruction* x : Chosen(PassThrough(module), begin, end)) by[x] = SimplerValue(x);
  for (Computation* computation : module.computations()) Redirect(*computation, by);
  return !by.empty();
}

int64_t CountInnerValues(Module& module) { return Size(InnerValues(module)); }

bool ValuesToZeros(Module& module, int64_t begin, int64_t end) {
  const Items chosen = Chosen(InnerValues(module), begin, end);
  std::unordered_map<Computation*, std::unordered_map<const Instruction*, Instruction*>> by;
  for (Instruction* x : chosen) by[x->parent()][x] = nullptr;
  for (auto& [computation, values] : by) {
    const size_t before = computation->instructions().size();
    Builder builder(module, computation);
    for (Instruction* x : chosen) {
      if (x->parent() == computation) values[x] = builder.Zero(x->shape());
    }
    MoveToFront(*computation, computation->instructions().size() - before);
    Redirect(*computation, values);
  }
  return !chosen.empty();
}

int64_t CountControlFlow(Module& module) { return Size(ControlFlow(module)); }

bool ControlFlowToCalls(Module& module, int64_t begin, int64_t end) {
  const Items chosen = Chosen(ControlFlow(module), begin, end);
  for (Instruction* x : chosen) {
    const bool is_loop = x->opcode() == Opcode::kWhile;
    Computation* callee = is_loop ? x->called(1) : x->called(0);
    Instruction* argument = is_loop ? x->operand(0) : x->operand(1);
    Computation* computation = x->parent();
    Instruction* call = module.Add(computation, Opcode::kCall, module.UniqueName(x->name()),
                                   x->shape(), std::span<Instruction* const>(&argument, 1),
                                   CallAttributes{}, std::span<Computation* const>(&callee, 1));
    call->set_sharding(x->sharding());
    // In the place of what it stands for.
    std::vector<Instruction*> list(computation->instructions().begin(),
                                   computation->instructions().end() - 1);
    std::ranges::replace(list, x, call);
    computation->SetInstructions(std::move(list));
    Redirect(*computation, {{x, call}});
  }
  return !chosen.empty();
}

int64_t CountCalls(Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kCall) return 1;
    }
  }
  return 0;
}

bool InlineAllCalls(Module& module, int64_t, int64_t) {
  auto inlined = InlineCalls(module);
  return inlined && *inlined;
}

int64_t CountTwinParameters(Module& module) { return Size(TwinParameters(module)); }

bool MergeParameters(Module& module, int64_t begin, int64_t end) {
  std::unordered_map<const Instruction*, Instruction*> by;
  for (Instruction* x : Chosen(TwinParameters(module), begin, end)) {
    for (Instruction* earlier : module.entry()->parameters()) {
      if (Compatible(x->shape(), earlier->shape()) && x->sharding() == earlier->sharding()) {
        by[x] = earlier;
        break;
      }
    }
  }
  Redirect(*module.entry(), by);
  return !by.empty();
}

}  // namespace gshard::reduce
