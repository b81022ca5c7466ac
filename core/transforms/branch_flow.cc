#include "core/transforms/branch_flow.h"

#include "core/transforms/loop_parts.h"

namespace gshard {

BranchFlow::BranchFlow(const Module& module) : users_(module) {
  const CallSites sites(module);
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kConditional) continue;
      for (size_t i = 0; i < x->called().size(); ++i) {
        if (sites.Count(x->called()[i]) != 1) continue;
        calls_[x->called()[i]] = {x, x->operand(static_cast<int64_t>(i) + 1)};
      }
    }
  }
}

void BranchFlow::AddElements(const Instruction* tuple, int64_t index,
                             std::vector<Instruction*>& out) const {
  for (Instruction* user : users_.of(tuple)) {
    if (user->opcode() != Opcode::kGetTupleElement) continue;
    if (user->attributes<GetTupleElementAttributes>().index == index) out.push_back(user);
  }
}

std::vector<Instruction*> BranchFlow::Beyond(const Instruction* x) const {
  std::vector<Instruction*> found;
  if (calls_.empty()) return found;
  // `value` is `x`, or a tuple that has it as element `index`.
  const auto add = [&](const Instruction* value, int64_t index) {
    const auto take = [&](Instruction* same) {
      if (index < 0) {
        found.push_back(same);
      } else {
        AddElements(same, index, found);
      }
    };
    const auto call = calls_.find(value->parent());
    if (call != calls_.end() && value->parent()->root() == value) take(call->second.conditional);
    for (const Instruction* user : users_.of(value)) {
      if (user->opcode() != Opcode::kConditional) continue;
      for (Computation* branch : user->called()) {
        const auto entered = calls_.find(branch);
        if (entered != calls_.end() && entered->second.argument == value) {
          take(branch->parameter(0));
        }
      }
    }
  };
  add(x, -1);
  for (const Instruction* user : users_.of(x)) {
    if (user->opcode() != Opcode::kTuple) continue;
    for (int64_t i = 0; i < user->operand_count(); ++i) {
      if (user->operand(i) == x) add(user, i);
    }
  }
  return found;
}

Instruction* BranchFlow::Outside(Instruction* x) const {
  while (true) {
    const bool is_element = x->opcode() == Opcode::kGetTupleElement;
    const Instruction* handed = is_element ? x->operand(0) : x;
    if (handed->opcode() != Opcode::kParameter) return x;
    const auto call = calls_.find(handed->parent());
    if (call == calls_.end()) return x;
    Instruction* argument = call->second.argument;
    if (is_element) {
      if (argument->opcode() != Opcode::kTuple) return x;
      argument = argument->operand(x->attributes<GetTupleElementAttributes>().index);
    }
    x = argument;
  }
}

}  // namespace gshard
