// Compiling called computations, and recognising the simple ones.
#include "backends/cpu/elementwise/scalar_program.h"

#include <vector>

#include "backends/cpu/elementwise/element_function.h"
#include "ir/module.h"

namespace gshard::cpu {
namespace {

void AppendLeafTypes(const Shape* shape, std::vector<DType>& types) {
  if (shape->IsArray()) types.push_back(shape->dtype());
  for (const Shape* element : shape->elements()) AppendLeafTypes(element, types);
}

// Looks through operations that do not change the value.
const Instruction* Plain(const Instruction* instruction) {
  while (instruction->opcode() == Opcode::kCopy || instruction->opcode() == Opcode::kBitcast ||
         instruction->opcode() == Opcode::kReshape) {
    instruction = instruction->operand(0);
  }
  return instruction;
}

const Instruction* WithoutConvert(const Instruction* instruction) {
  instruction = Plain(instruction);
  if (instruction->opcode() != Opcode::kConvert) return instruction;
  const DType to = instruction->shape()->dtype();
  const DType from = instruction->operand(0)->shape()->dtype();
  const bool widens = IsSmallFloat(from) && to == DType::kF32;
  const bool narrows = IsSmallFloat(to) && from == DType::kF32;
  return widens || narrows ? Plain(instruction->operand(0)) : instruction;
}

}  // namespace

Expected<std::unique_ptr<ScalarProgram>> ScalarProgram::Compile(const Computation& computation) {
  auto result = std::make_unique<ScalarProgram>();
  ElementwiseProgram& program = result->program_;
  std::vector<DType> types;
  for (const Instruction* parameter : computation.parameters()) {
    AppendLeafTypes(parameter->shape(), types);
  }
  std::vector<ElementwiseProgram::Value> arguments;
  for (DType type : types) arguments.push_back(program.AddArrayInput(type));
  auto values = program.AddCall(computation, arguments);
  if (!values) return Fail(values.error());
  for (ElementwiseProgram::Value value : *values) program.AddOutput(value);
  program.Build(/*outputs_may_alias=*/true);
  return result;
}

Expected<std::unique_ptr<ElementFunction>> CompileElementFunction(const Computation& computation) {
  auto program = ScalarProgram::Compile(computation);
  if (!program) return Fail(program.error());
  return std::unique_ptr<ElementFunction>(std::move(*program));
}

std::optional<Opcode> SingleBinaryOperation(const Computation& computation) {
  if (computation.parameter_count() != 2) return std::nullopt;
  const Instruction* root = WithoutConvert(computation.root());
  if (root->operand_count() != 2 || !IsElementwise(root->opcode()) ||
      root->opcode() == Opcode::kCompare) {
    return std::nullopt;
  }
  const DType type = computation.root()->shape()->dtype();
  const Instruction* a = WithoutConvert(root->operand(0));
  const Instruction* b = WithoutConvert(root->operand(1));
  const Instruction* first = computation.parameter(0);
  const Instruction* second = computation.parameter(1);
  const bool in_order = a == first && b == second;
  const bool swapped = a == second && b == first && HasFlag(root->opcode(), kCommutative);
  if (!in_order && !swapped) return std::nullopt;
  if (first->shape()->dtype() != type || second->shape()->dtype() != type) return std::nullopt;
  return root->opcode();
}

int64_t ForwardedParameter(const Computation& computation) {
  const Instruction* root = Plain(computation.root());
  return root->opcode() == Opcode::kParameter ? root->attributes<ParameterAttributes>().number : -1;
}

}  // namespace gshard::cpu
