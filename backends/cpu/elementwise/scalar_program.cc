// Compiling called computations.
#include "backends/cpu/elementwise/scalar_program.h"

#include <vector>

#include "backends/cpu/elementwise/element_function.h"
#include "ir/module.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

void AppendLeafTypes(const Shape* shape, std::vector<DType>& types) {
  if (shape->IsArray()) types.push_back(shape->dtype());
  for (const Shape* element : shape->elements()) AppendLeafTypes(element, types);
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
  auto values = GSHARD_TRY(program.AddCall(computation, arguments));
  for (ElementwiseProgram::Value value : values) program.AddOutput(value);
  program.Build(/*outputs_may_alias=*/true);
  return result;
}

Expected<std::unique_ptr<ElementFunction>> CompileElementFunction(const Computation& computation) {
  auto program = GSHARD_TRY(ScalarProgram::Compile(computation));
  return std::unique_ptr<ElementFunction>(std::move(program));
}

}  // namespace gshard::cpu
