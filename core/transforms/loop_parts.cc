#include "core/transforms/loop_parts.h"

#include <algorithm>

namespace gshard {
CallSites::CallSites(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) ++count_[called];
    }
  }
}

int64_t CallSites::Count(const Computation* computation) const {
  auto found = count_.find(computation);
  return found == count_.end() ? 0 : found->second;
}

std::optional<LoopParts> PartsOf(Instruction* loop, const CallSites& sites) {
  if (loop->opcode() != Opcode::kWhile || !loop->shape()->IsTuple()) return std::nullopt;
  if (loop->sharding() != nullptr || !loop->control_predecessors().empty()) return std::nullopt;
  LoopParts parts{loop, loop->called(0), loop->called(1), nullptr, nullptr};
  if (sites.Count(parts.condition) != 1 || sites.Count(parts.body) != 1) return std::nullopt;
  if (parts.body->root()->opcode() != Opcode::kTuple) return std::nullopt;
  parts.condition_state = parts.condition->parameter(0);
  parts.body_state = parts.body->parameter(0);
  // A sharding of the state as a whole would have to lose elements with it.
  for (const Instruction* state : {parts.condition_state, parts.body_state, parts.body->root()}) {
    if (state->sharding() != nullptr) return std::nullopt;
  }
  const bool is_plain = IsReadByElement(parts.condition_state) && IsReadByElement(parts.body_state);
  return is_plain ? std::optional(parts) : std::nullopt;
}

bool IsReadByElement(const Instruction* tuple) {
  const Computation& computation = *tuple->parent();
  return computation.root() != tuple &&
         std::ranges::all_of(computation.instructions(), [&](const Instruction* x) {
           return x->opcode() == Opcode::kGetTupleElement ||
                  std::ranges::find(x->operands(), tuple) == x->operands().end();
         });
}

std::optional<int64_t> ElementOf(const Instruction* x, const Instruction* parameter) {
  if (x->opcode() != Opcode::kGetTupleElement || x->operand(0) != parameter) return std::nullopt;
  return x->attributes<GetTupleElementAttributes>().index;
}

void SetState(const LoopParts& parts, Builder& builder, std::span<Instruction* const> inits) {
  Instruction* init = builder.Tuple(inits);
  parts.loop->set_operand(0, init);
  for (Instruction* x : {parts.loop, parts.body_state, parts.condition_state}) {
    x->set_shape(init->shape());
  }
}

}  // namespace gshard
