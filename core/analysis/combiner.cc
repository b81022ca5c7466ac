#include "core/analysis/combiner.h"

namespace gshard {

std::optional<Opcode> CombinerOf(const Computation* computation) {
  const Instruction* root = computation->root();
  if (root == nullptr || computation->parameter_count() != 2 || root->operand_count() != 2) {
    return std::nullopt;
  }
  const Instruction* a = root->operand(0);
  const Instruction* b = root->operand(1);
  if (a->opcode() != Opcode::kParameter || b->opcode() != Opcode::kParameter || a == b ||
      !root->shape()->IsScalar()) {
    return std::nullopt;
  }
  switch (root->opcode()) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      return root->opcode();
    default:
      return std::nullopt;
  }
}

}  // namespace gshard
