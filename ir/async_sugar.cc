#include "ir/async_sugar.h"

#include <algorithm>

#include "ir/computation.h"

namespace gshard {
namespace {

bool MayBeWrapped(Opcode opcode) {
  constexpr Opcode kNever[] = {
      Opcode::kAllGather,  Opcode::kAllReduce,   Opcode::kCollectivePermute, Opcode::kCopy,
      Opcode::kSend,       Opcode::kRecv,        Opcode::kParameter,         Opcode::kConstant,
      Opcode::kAsyncStart, Opcode::kAsyncUpdate, Opcode::kAsyncDone,
  };
  return std::find(std::begin(kNever), std::end(kNever), opcode) == std::end(kNever);
}

}  // namespace

AsyncOpcode ParseAsyncOpcode(std::string_view text) {
  constexpr std::string_view kSuffixes[] = {"-start", "-update", "-done"};
  for (size_t i = 0; i < 3; ++i) {
    if (!text.ends_with(kSuffixes[i])) continue;
    const auto opcode = OpcodeFromName(text.substr(0, text.size() - kSuffixes[i].size()));
    if (!opcode.has_value() || !MayBeWrapped(*opcode)) return {};
    return {opcode, static_cast<AsyncStep>(i)};
  }
  return {};
}

const Instruction* AsyncStartOf(const Instruction* instruction) {
  while (instruction->opcode() == Opcode::kAsyncUpdate ||
         instruction->opcode() == Opcode::kAsyncDone) {
    instruction = instruction->operand(0);
  }
  return instruction->opcode() == Opcode::kAsyncStart ? instruction : nullptr;
}

bool TakesOperands(Opcode opcode, size_t count) {
  const int arity = InfoOf(opcode).arity;
  return arity == kVariadic || count == static_cast<size_t>(arity) ||
         (opcode == Opcode::kAsyncUpdate && count > 1);
}

bool StartsWithoutOperands(const Instruction& async_start) {
  return async_start.opcode() == Opcode::kAsyncStart && async_start.operand_count() == 0 &&
         async_start.called(0)->parameter_count() > 0;
}

bool BringsOperands(const Instruction& async_update) {
  return async_update.opcode() == Opcode::kAsyncUpdate && async_update.operand_count() > 1;
}

const Instruction* WrappedOperation(const Instruction* async_start) {
  if (async_start->called().empty()) return nullptr;
  const Computation* computation = async_start->called(0);
  const Instruction* root = computation->root();
  const auto operands = root->operands();
  if (!MayBeWrapped(root->opcode()) || computation->instructions().size() != operands.size() + 1 ||
      computation->parameters().size() != operands.size() ||
      operands.size() != async_start->operands().size() ||
      !std::equal(operands.begin(), operands.end(), computation->parameters().begin())) {
    return nullptr;
  }
  const bool payload_shown =
      root->backend_config().empty() ||
      (root->opcode() == Opcode::kCustomCall && async_start->backend_config().empty());
  for (const Instruction* instruction : computation->instructions()) {
    if (instruction->sharding() != nullptr || !instruction->metadata().empty() ||
        !instruction->frontend_attributes().empty() || instruction->extras() != nullptr) {
      return nullptr;
    }
  }
  const Shape* shape = async_start->shape();
  if (!payload_shown || !shape->IsTuple() || shape->elements().size() < 2 ||
      shape->element(1) != root->shape()) {
    return nullptr;
  }
  return root;
}

}  // namespace gshard
