#include "ir/computation.h"

namespace gshard {

void Computation::Append(Instruction* instruction) {
  instructions_.push_back(instruction);
  if (instruction->opcode() == Opcode::kParameter) RecordParameter(instruction);
}

void Computation::RecordParameter(Instruction* instruction) {
  const int64_t number = instruction->attributes<ParameterAttributes>().number;
  CheckInternal(number >= 0, "negative parameter number");
  const auto index = static_cast<size_t>(number);
  if (parameters_.size() <= index) parameters_.resize(index + 1, nullptr);
  parameters_[index] = instruction;
}

void Computation::SetInstructions(std::vector<Instruction*> instructions) {
  instructions_ = std::move(instructions);
  parameters_.clear();
  for (Instruction* instruction : instructions_) {
    instruction->parent_ = this;
    if (instruction->opcode() == Opcode::kParameter) RecordParameter(instruction);
  }
}

}  // namespace gshard
