#include "core/transforms/rewriter.h"

#include <algorithm>

#include "ir/traversal.h"

namespace gshard {
namespace {

bool MustStay(const Instruction* x) {
  return HasFlag(x->opcode(), kSideEffect) || x->opcode() == Opcode::kParameter;
}

// "dot.3" says nothing about a dot that its opcode does not say.
bool IsNamedByOpcode(const Instruction* x) {
  std::string_view name = x->name();
  std::string_view opcode = OpcodeName(x->opcode());
  return name.starts_with(opcode) && (name.size() == opcode.size() || name[opcode.size()] == '.');
}

}  // namespace

void Rewriter::CountUses(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    uses_[x->id()] = 0;
    ValueOf(x) = nullptr;
  }
  for (const Instruction* x : computation.instructions()) {
    for (const Instruction* operand : x->operands()) ++uses_[operand->id()];
  }
  ++uses_[computation.root()->id()];
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

void Rewriter::Replace(Instruction* x, Instruction* by, bool is_new) {
  CheckInternal(Compatible(x->shape(), by->shape()), "rewriter: the replacement has another shape");
  if (is_new) {
    if (by->sharding() == nullptr) by->set_sharding(x->sharding());
    if (!IsNamedByOpcode(x)) by->set_name(x->name());
    by->set_shape(x->shape());
  }
  ValueOf(x) = by;
  uses_[by->id()] += uses_[x->id()];
  uses_[x->id()] = 0;
  Release(x);
}

bool Rewriter::Run(Computation* computation, const Visit& visit) {
  uses_.resize(module_.instruction_limit());
  value_.resize(module_.instruction_limit());
  CountUses(*computation);
  std::vector<Instruction*> old(computation->instructions().begin(),
                                computation->instructions().end());
  std::vector<Instruction*> list;
  list.reserve(old.size());
  Builder builder(module_, computation);
  builder_ = &builder;
  size_t known = old.size();
  bool changed = false;
  bool has_control = false;
  // What the builder appended goes to the end of the new list.
  auto take_new = [&] {
    std::span<Instruction* const> all = computation->instructions();
    for (; known < all.size(); ++known) {
      uses_.resize(std::max<size_t>(uses_.size(), module_.instruction_limit()));
      value_.resize(uses_.size());
      for (const Instruction* operand : all[known]->operands()) ++uses_[operand->id()];
      list.push_back(all[known]);
    }
  };
  for (Instruction* x : old) {
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (Instruction* value = ValueOf(x->operand(i))) x->set_operand(i, value);
    }
    if (!x->control_predecessors().empty()) {
      has_control = true;
      list.push_back(x);
      continue;
    }
    builder.set_origin(x);
    size_t known_before = known;
    Instruction* by = visit(x, *this);
    take_new();
    bool is_new =
        by != x &&
        std::find(computation->instructions().begin() + static_cast<std::ptrdiff_t>(known_before),
                  computation->instructions().end(), by) != computation->instructions().end();
    bool keeps_sharding = is_new || x->sharding() == nullptr || x->sharding() == by->sharding();
    if (by == x || !keeps_sharding) {
      list.push_back(x);
      continue;
    }
    Replace(x, by, is_new);
    if (MustStay(x)) list.push_back(x);
    changed = true;
  }
  Instruction* root = computation->root();
  if (Instruction* value = ValueOf(root)) root = value;
  if (has_control) {
    for (Instruction* x : list) {
      if (x->control_predecessors().empty()) continue;
      std::vector<Instruction*> predecessors(x->control_predecessors().begin(),
                                             x->control_predecessors().end());
      for (Instruction*& predecessor : predecessors) {
        if (Instruction* value = ValueOf(predecessor)) predecessor = value;
      }
      Instruction::Extras extras = *x->extras();
      extras.control_predecessors = module_.arena().Copy(predecessors);
      x->set_extras(module_.arena().New<Instruction::Extras>(extras));
    }
  }
  computation->SetInstructions(std::move(list));
  computation->set_root(root);
  builder_ = nullptr;
  return changed;
}

bool RewriteModule(Module& module, const Rewriter::Visit& visit) {
  Rewriter rewriter(module);
  bool changed = false;
  std::vector<Computation*> computations(module.computations().begin(),
                                         module.computations().end());
  for (Computation* computation : computations) changed |= rewriter.Run(computation, visit);
  return RemoveDeadCode(module) || changed;
}

}  // namespace gshard
