#include "core/analysis/kernels/eager_calls.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "ir/metadata.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Is an operand repeated along dims that it lacks: a norm's statistic or scale, a bias?
bool ReadsFewerDims(const Instruction& x) {
  return std::ranges::any_of(x.operands(), [](const Instruction* operand) {
    return operand->opcode() == Opcode::kBroadcast && operand->operand(0)->shape()->rank() > 0;
  });
}

// The innermost function of a library that an operation is part of, by its op_name: all up to
// "jit(silu)" of "jit(step)/jvp()/while/body/jit(silu)/mul". Empty: of none.
std::string_view CallIn(std::string_view op_name) {
  const size_t at = op_name.rfind("jit(");
  if (at == std::string_view::npos || at == 0) return {};
  const size_t end = op_name.find('/', at);
  return end == std::string_view::npos ? std::string_view() : op_name.substr(0, end);
}

bool IsOfModel(std::string_view op_name) { return op_name.find("jvp(") != op_name.npos; }

// Of the backward pass, and not of what it computes again.
bool IsBackward(std::string_view op_name) {
  return op_name.find("transpose(") != op_name.npos &&
         op_name.find("rematted_computation") == op_name.npos;
}

const Instruction* Plain(const Instruction* x) {
  while (KeepsOrder(x->opcode()) && x->shape()->IsArray()) x = x->operand(0);
  return x;
}

// Left by the forward pass: made by it, or a row of what its loop stacked.
bool IsSaved(const Instruction* x) {
  if (x->opcode() == Opcode::kDynamicSlice) return true;
  const std::string name = OpNameOf(*x);
  return !name.empty() && !IsBackward(name);
}

}  // namespace

EagerCalls::EagerCalls(std::span<Instruction* const> operands_first) {
  argument_of_.reserve(operands_first.size());
  for (const Instruction* x : operands_first) argument_of_[x] = FindArgument(*x);
}

const Instruction* EagerCalls::FindArgument(const Instruction& x) const {
  if (!IsElementwise(x.opcode()) || !x.shape()->IsArray()) return &x;
  const std::string name = OpNameOf(x);
  const Instruction* argument = nullptr;
  for (const Instruction* operand : x.operands()) {
    operand = Plain(operand);
    const bool is_made = operand->opcode() == Opcode::kBroadcast ||
                         operand->opcode() == Opcode::kIota ||
                         operand->opcode() == Opcode::kConstant;
    if (is_made || (IsBackward(name) && IsSaved(operand))) continue;
    const std::string other = OpNameOf(*operand);
    const bool is_one = CallIn(name) == CallIn(other) && IsBackward(name) == IsBackward(other);
    const Instruction* next = is_one ? argument_of_.at(operand) : operand;
    if (argument != nullptr && argument != next) return &x;
    argument = next;
  }
  return argument == nullptr ? &x : argument;
}

bool EagerCalls::AreOne(const Instruction& x, const Instruction& user) const {
  if (x.opcode() == Opcode::kConvert || user.opcode() == Opcode::kConvert) return true;
  if (!IsElementwise(user.opcode())) return true;
  if (ReadsFewerDims(x) || ReadsFewerDims(user)) return true;
  const std::string name = OpNameOf(x), other = OpNameOf(user);
  if (!IsOfModel(name) || !IsOfModel(other)) return true;
  const std::string_view call = CallIn(name), call_of_user = CallIn(other);
  if (!call.empty() || !call_of_user.empty()) return call == call_of_user;
  const Instruction* argument = argument_of_.at(&x);
  const auto of_user = argument_of_.find(&user);
  return argument != &x && of_user != argument_of_.end() && argument == of_user->second;
}

}  // namespace gshard
