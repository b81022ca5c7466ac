// Lowering of a computation to a list of kernels over slots.
#include "backends/cpu/ops/call_kernel.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <cstring>

#include "backends/cpu/arrays/fill.h"
#include "backends/cpu/ops/kernel_table.h"
#include "ir/literal.h"
#include "ir/module.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

void AppendLeaves(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (shape->IsArray()) leaves.push_back(shape);
  for (const Shape* element : shape->elements()) AppendLeaves(element, leaves);
}
std::vector<const Shape*> LeavesOf(const Shape* shape) {
  std::vector<const Shape*> leaves;
  AppendLeaves(shape, leaves);
  return leaves;
}

}  // namespace

size_t CallKernel::AddSlot(const Shape* shape) {
  slots_.push_back({shape->element_count() * StorageBytes(shape->dtype()), nullptr, -1});
  return slots_.size() - 1;
}

void CallKernel::AddConstant(const Literal& literal, std::vector<size_t>& result) {
  if (literal.shape->IsTuple() && !literal.elided) {
    for (const Literal* element : literal.elements) AddConstant(*element, result);
    return;
  }
  for (const Shape* leaf : LeavesOf(literal.shape)) {
    result.push_back(AddSlot(leaf));
    slots_.back().constant = literal.data.data();
    if (!literal.elided) continue;
    std::vector<std::byte>& data = elided_.emplace_back(static_cast<size_t>(slots_.back().bytes));
    FillElided(leaf, 0, data);
    slots_.back().constant = data.data();
  }
}

Expected<std::vector<size_t>> CallKernel::Add(const Computation& computation,
                                              const std::vector<size_t>& arguments) {
  tsl::robin_map<const Instruction*, std::vector<size_t>> values;
  std::vector<size_t> begin;
  size_t next = 0;
  for (const Instruction* parameter : computation.parameters()) {
    begin.push_back(next);
    next += LeavesOf(parameter->shape()).size();
  }
  for (const Instruction* instruction : computation.instructions()) {
    std::vector<size_t> flat;
    for (const Instruction* operand : instruction->operands()) {
      const std::vector<size_t>& slots = values.at(operand);
      flat.insert(flat.end(), slots.begin(), slots.end());
    }
    const std::vector<const Shape*> leaves = LeavesOf(instruction->shape());
    std::vector<size_t> result;
    switch (instruction->opcode()) {
      case Opcode::kParameter: {
        const size_t from =
            begin[static_cast<size_t>(instruction->attributes<ParameterAttributes>().number)];
        for (size_t i = 0; i < leaves.size(); ++i) result.push_back(arguments[from + i]);
        break;
      }
      case Opcode::kConstant: {
        AddConstant(*instruction->attributes<ConstantAttributes>().literal, result);
        break;
      }
      case Opcode::kTuple:
      case Opcode::kOptBarrier:
        result = flat;
        break;
      case Opcode::kGetTupleElement: {
        const int64_t index = instruction->attributes<GetTupleElementAttributes>().index;
        size_t from = 0;
        for (int64_t i = 0; i < index; ++i) {
          from += LeavesOf(instruction->operand(0)->shape()->element(i)).size();
        }
        for (size_t i = 0; i < leaves.size(); ++i) result.push_back(flat[from + i]);
        break;
      }
      case Opcode::kCall:
      case Opcode::kFusion: {
        result = GSHARD_TRY(Add(*instruction->called(0), flat));
        break;
      }
      default: {
        const KernelFactory factory = KernelFactoryOf(instruction->opcode());
        if (factory == nullptr) {
          return Fail(computation.module().ErrorAt(
              instruction, "E-RUN-002",
              fmt::format("{} cannot be evaluated inside a body of scan",
                          OpcodeName(instruction->opcode()))));
        }
        auto kernel = GSHARD_TRY(factory(*instruction));
        for (const Shape* leaf : leaves) result.push_back(AddSlot(leaf));
        steps_.push_back({std::move(kernel), std::move(flat), result});
      }
    }
    values.insert_or_assign(instruction, std::move(result));
  }
  return values.at(computation.root());
}

Expected<CallKernel> CallKernel::Make(const Computation& computation) {
  CallKernel call;
  std::vector<size_t> arguments;
  for (const Instruction* parameter : computation.parameters()) {
    for (const Shape* leaf : LeavesOf(parameter->shape())) {
      arguments.push_back(call.AddSlot(leaf));
      call.slots_.back().argument = static_cast<int64_t>(arguments.size() - 1);
    }
  }
  call.roots_ = GSHARD_TRY(call.Add(computation, arguments));
  return call;
}

void CallKernel::Run(ConstBuffers arguments, Buffers results, Scratch& scratch) const {
  const auto pointers = [&](size_t count) {
    return reinterpret_cast<std::byte**>(scratch.Allocate((count + 1) * sizeof(std::byte*)));
  };
  std::byte** values = pointers(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    values[i] = slot.argument >= 0
                    ? const_cast<std::byte*>(arguments[static_cast<size_t>(slot.argument)])
                : slot.constant != nullptr ? const_cast<std::byte*>(slot.constant)
                                           : scratch.Allocate(static_cast<size_t>(slot.bytes));
  }
  for (const Step& step : steps_) {
    const Scratch::Mark mark = scratch.Position();
    std::byte** in = pointers(step.operands.size());
    std::byte** out = pointers(step.results.size());
    for (size_t k = 0; k < step.operands.size(); ++k) in[k] = values[step.operands[k]];
    for (size_t k = 0; k < step.results.size(); ++k) out[k] = values[step.results[k]];
    step.kernel->Run({const_cast<const std::byte**>(in), step.operands.size()},
                     {out, step.results.size()}, scratch);
    scratch.Rewind(mark);
  }
  for (size_t k = 0; k < roots_.size(); ++k) {
    std::memcpy(results[k], values[roots_[k]], static_cast<size_t>(slots_[roots_[k]].bytes));
  }
}

}  // namespace gshard::cpu
