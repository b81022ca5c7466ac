#include "core/cost/blocking_collectives.h"

#include "ir/op_traits.h"

namespace gshard {
namespace {

using Values = std::unordered_set<const Instruction*>;

// What products of the computation depend on.
Values NeededByProducts(const Computation& computation) {
  Values needed;
  const auto& instructions = computation.instructions();
  for (auto it = instructions.rbegin(); it != instructions.rend(); ++it) {
    const bool computes = IsProduct((*it)->opcode()) || IsControlFlow((*it)->opcode());
    if (!computes && !needed.contains(*it)) continue;
    needed.insert((*it)->operands().begin(), (*it)->operands().end());
  }
  return needed;
}

// Moved or cast from a parameter, and no more.
bool IsParameterMoved(const Instruction* x) {
  while (x->operand_count() > 0) {
    const bool passes = MovesOneArray(x->opcode()) || x->opcode() == Opcode::kConvert ||
                        x->opcode() == Opcode::kGetTupleElement || IsCollective(x->opcode());
    if (!passes) return false;
    x = x->operand(0);
  }
  return x->opcode() == Opcode::kParameter;
}

}  // namespace

std::unordered_set<const Instruction*> BlockingCollectives(const Computation& computation) {
  const Values needed = NeededByProducts(computation);
  Values blocking;
  for (const Instruction* x : computation.instructions()) {
    if (!IsCollective(x->opcode()) || !needed.contains(x)) continue;
    if (!IsParameterMoved(x->operand(0))) blocking.insert(x);
  }
  return blocking;
}

}  // namespace gshard
