#include "core/transforms/rewriter.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

bool MustStay(const Instruction* x) {
  return HasSideEffect(*x) || x->opcode() == Opcode::kParameter;
}

// "dot.3" says nothing about a dot that its opcode does not say.
bool IsNamedByOpcode(const Instruction* x) {
  std::string_view name = x->name();
  std::string_view opcode = OpcodeName(x->opcode());
  return name.starts_with(opcode) && (name.size() == opcode.size() || name[opcode.size()] == '.');
}

bool RunsLoop(const Computation* computation) {
  return std::ranges::any_of(computation->instructions(),
                             [](const Instruction* x) { return x->opcode() == Opcode::kWhile; });
}

bool RunOn(const std::vector<Computation*>& computations, const Rewriter::Visit& visit,
           Rewriter& rewriter) {
  bool changed = false;
  for (Computation* computation : computations) changed |= rewriter.Run(computation, visit);
  return changed;
}

}  // namespace

void Rewriter::SetValue(const Instruction* x, Instruction* by) {
  if (x->id() >= value_.size()) value_.resize(module_.instruction_limit());
  value_[x->id()] = by;
}

void Rewriter::Begin(Computation* computation) {
  builder_.emplace(module_, computation);
  taken_ = computation->instructions().size();
  list_.clear();
  list_.reserve(taken_);
  value_.resize(module_.instruction_limit());
  for (const Instruction* x : computation->instructions()) value_[x->id()] = nullptr;
}

void Rewriter::RedirectOperands(Instruction* x) {
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    Instruction* value = ValueOf(x->operand(i));
    if (value != x->operand(i)) x->set_operand(i, value);
  }
}

// Those that have left the list without anything in their place are dropped.
void Rewriter::RedirectControlPredecessors() {
  auto waits = [](const Instruction* x) { return !x->control_predecessors().empty(); };
  if (std::none_of(list_.begin(), list_.end(), waits)) return;
  const std::unordered_set<const Instruction*> listed(list_.begin(), list_.end());
  for (Instruction* x : list_) {
    if (!waits(x)) continue;
    std::vector<Instruction*> predecessors;
    for (Instruction* predecessor : x->control_predecessors()) {
      Instruction* value = ValueOf(predecessor);
      if (listed.count(value) != 0) predecessors.push_back(value);
    }
    Instruction::Extras extras = *x->extras();
    extras.control_predecessors = module_.arena().Copy(predecessors);
    x->set_extras(module_.arena().New<Instruction::Extras>(extras));
  }
}

void Rewriter::Finish() {
  TakeNew();
  RedirectControlPredecessors();
  Computation* computation = builder_->computation();
  Instruction* root = ValueOf(computation->root());
  computation->SetInstructions(std::move(list_));
  computation->set_root(root);
  list_.clear();
  builder_.reset();
}

void Rewriter::CountUses(const Computation& computation) {
  uses_.resize(module_.instruction_limit());
  for (const Instruction* x : computation.instructions()) uses_[x->id()] = 0;
  CountOperands(computation.instructions());
  ++uses_[computation.root()->id()];
}

void Rewriter::CountOperands(std::span<Instruction* const> made) {
  if (made.empty()) return;
  uses_.resize(std::max<size_t>(uses_.size(), module_.instruction_limit()));
  for (const Instruction* x : made) {
    for (const Instruction* operand : x->operands()) ++uses_[operand->id()];
  }
}

void Rewriter::Release(Instruction* x) {
  std::vector<Instruction*> released = {x};
  while (!released.empty()) {
    Instruction* last = released.back();
    released.pop_back();
    for (Instruction* operand : last->operands()) {
      if (--uses_[operand->id()] == 0 && !MustStay(operand)) released.push_back(operand);
    }
  }
}

void Rewriter::StandIn(Instruction* x, Instruction* by, bool is_new) {
  CheckInternal(Compatible(x->shape(), by->shape()), "rewriter: the replacement has another shape");
  if (is_new) {
    if (by->sharding() == nullptr) by->set_sharding(x->sharding());
    if (!IsNamedByOpcode(x)) by->set_name(x->name());
    by->set_shape(x->shape());
  }
  SetValue(x, by);
  uses_[by->id()] += uses_[x->id()];
  uses_[x->id()] = 0;
  Release(x);
}

bool Rewriter::Run(Computation* computation, const Visit& visit) {
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  CountUses(*computation);
  Begin(computation);
  bool changed = false;
  for (Instruction* x : old) {
    RedirectOperands(x);
    if (!x->control_predecessors().empty()) {
      Keep(x);
      continue;
    }
    builder_->set_origin(x);
    const size_t before = list_.size();
    Instruction* by = visit(x, *this);
    TakeNew();
    const std::span<Instruction* const> made = std::span(list_).subspan(before);
    CountOperands(made);
    if (by == x) {
      list_.push_back(x);
      continue;
    }
    const bool is_new = std::find(made.begin(), made.end(), by) != made.end();
    const bool keeps_sharding =
        is_new || x->sharding() == nullptr || x->sharding() == by->sharding();
    if (!keeps_sharding) {
      Keep(x);
      continue;
    }
    StandIn(x, by, is_new);
    if (MustStay(x)) Keep(x);
    changed = true;
  }
  Finish();
  return changed;
}

bool RewriteModule(Module& module, const Rewriter::Visit& visit) {
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  Rewriter rewriter(module);
  const bool changed = RunOn(all, visit, rewriter);
  return RemoveDeadCode(module) || changed;
}

bool RewriteLoopCallers(Module& module, const Rewriter::Visit& visit) {
  std::vector<Computation*> callers;
  std::ranges::copy_if(module.computations(), std::back_inserter(callers), RunsLoop);
  Rewriter rewriter(module);
  const bool changed = RunOn(callers, visit, rewriter);
  const bool has_dead_code = changed || rewriter.has_made();
  return (has_dead_code && RemoveDeadCode(module)) || changed;
}

void InsertAfterEach(Module& module, Computation* computation,
                     const std::function<Instruction*(Instruction* x, Builder& builder)>& after) {
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  for (Instruction* x : old) {
    rewriter.RedirectOperands(x);
    rewriter.Keep(x);
    rewriter.builder().set_origin(x);
    if (Instruction* by = after(x, rewriter.builder()); by != x) rewriter.Alias(x, by);
  }
  rewriter.Finish();
}

}  // namespace gshard
