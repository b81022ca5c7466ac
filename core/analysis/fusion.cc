// The fusion model. See fusion.h.

#include "core/analysis/fusion.h"

#include <algorithm>

namespace gshard {
namespace {

bool ComputesOnTheFly(Opcode opcode) { return IsElementwise(opcode) || opcode == Opcode::kReduce; }

bool IsCheap(Opcode opcode) { return opcode == Opcode::kBroadcast || opcode == Opcode::kIota; }

bool CanFuse(const Instruction* producer, std::span<Instruction* const> users,
             const Computation& computation) {
  if (producer == computation.root() || users.empty() || !producer->shape()->IsArray())
    return false;
  bool cheap = IsCheap(producer->opcode());
  if (!cheap && (!IsElementwise(producer->opcode()) || users.size() > 1)) return false;
  return std::all_of(users.begin(), users.end(),
                     [](const Instruction* user) { return ComputesOnTheFly(user->opcode()); });
}

}  // namespace

FusionModel::FusionModel(const Computation& computation, const Users& users) {
  uint32_t last = 0;
  first_id_ = UINT32_MAX;
  for (const Instruction* instruction : computation.instructions()) {
    first_id_ = std::min(first_id_, instruction->id());
    last = std::max(last, instruction->id());
  }
  if (first_id_ > last) return;
  fused_.resize(last - first_id_ + 1);
  for (const Instruction* instruction : computation.instructions()) {
    fused_[Index(instruction)] = CanFuse(instruction, users.of(instruction), computation);
  }
}

std::vector<const Instruction*> FusionModel::Inputs(const Instruction* instruction) const {
  std::vector<const Instruction*> inputs,
      pending(instruction->operands().begin(), instruction->operands().end());
  std::vector<const Instruction*> seen;
  while (!pending.empty()) {
    const Instruction* value = pending.back();
    pending.pop_back();
    if (std::find(seen.begin(), seen.end(), value) != seen.end()) continue;
    seen.push_back(value);
    if (IsFused(value)) {
      pending.insert(pending.end(), value->operands().begin(), value->operands().end());
    } else {
      inputs.push_back(value);
    }
  }
  return inputs;
}

}  // namespace gshard
