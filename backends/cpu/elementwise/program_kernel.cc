// Binding of instruction operands to the inputs of elementwise programs.
#include "backends/cpu/elementwise/program_kernel.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <array>

#include "ir/module.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

using Value = ElementwiseProgram::Value;

constexpr size_t kInlinePointers = 16;

// A pointer array on the stack, or in scratch when it is long.
template <typename T>
T* PointerArray(std::array<T, kInlinePointers>& inline_storage, size_t count, Scratch& scratch) {
  if (count <= kInlinePointers) return inline_storage.data();
  return reinterpret_cast<T*>(scratch.Allocate(count * sizeof(T)));
}

// The operand of a broadcast as seen by its result: stride 0 along new and expanded dims.
StridedView BroadcastView(const Instruction& broadcast) {
  const Shape* from = broadcast.operand(0)->shape();
  const Shape* to = broadcast.shape();
  const std::vector<int64_t> operand_strides = RowMajorStrides(from->dims());
  std::vector<int64_t> strides(static_cast<size_t>(to->rank()), 0);
  const Dims dimensions = broadcast.attributes<DimensionsAttributes>().dimensions;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (from->dim(static_cast<int64_t>(i)) != 1) {
      strides[static_cast<size_t>(dimensions[i])] = operand_strides[i];
    }
  }
  return {to->dims(), strides, 0, StorageBytes(to->dtype())};
}

// Builds the program of a group: how each member's value comes about.
class GroupBuilder {
 public:
  GroupBuilder(std::span<const Shape* const> externals, int64_t element_count)
      : element_count_(element_count), externals_(externals), external_(externals.size(), -1) {}

  // The error of a member that cannot be evaluated, if any.
  Expected<void> Add(const FusedMember& fused) {
    if (fused.instruction == nullptr) {
      members_.push_back(program_.AddConstantBytes(fused.dtype, fused.element));
      return {};
    }
    const Instruction& member = *fused.instruction;
    const Shape* shape = member.shape();
    Value value = -1;
    switch (member.opcode()) {
      case Opcode::kConstant:
        value = program_.AddConstant(*member.attributes<ConstantAttributes>().literal);
        break;
      case Opcode::kIota: {
        const int64_t dim = member.attributes<IotaAttributes>().dimension;
        const auto dims = shape->dims();
        const int64_t inner = Product(dims.subspan(static_cast<size_t>(dim) + 1));
        value = program_.AddIota(shape->dtype(), inner, shape->dim(dim));
        break;
      }
      case Opcode::kBroadcast:
        value = AddBroadcast(fused);
        break;
      case Opcode::kReshape:
      case Opcode::kBitcast:
        value = OperandOf(fused, 0);
        break;
      default: {
        std::vector<Value> operands;
        for (size_t i = 0; i < fused.operands.size(); ++i) operands.push_back(OperandOf(fused, i));
        if (member.opcode() == Opcode::kMap) {
          auto values = GSHARD_TRY(program_.AddCall(*member.called(0), operands));
          value = values.front();
        } else {
          auto added = GSHARD_TRY(program_.AddInstruction(member, operands));
          value = added;
        }
      }
    }
    members_.push_back(value);
    return {};
  }

  void AddOutput(int32_t member) { program_.AddOutput(ValueOf(member)); }

  ElementwiseProgram TakeProgram() {
    program_.Build();
    return std::move(program_);
  }
  std::vector<int32_t> TakeSources() { return std::move(sources_); }

 private:
  Value ValueOf(int32_t operand) {
    if (operand >= 0) return members_[static_cast<size_t>(operand)];
    const int32_t external = -1 - operand;
    Value& value = external_[static_cast<size_t>(external)];
    if (value >= 0) return value;
    const Shape* shape = externals_[static_cast<size_t>(external)];
    const bool uniform = shape->element_count() == 1 && element_count_ != 1;
    value =
        uniform ? program_.AddUniformInput(shape->dtype()) : program_.AddArrayInput(shape->dtype());
    sources_.push_back(external);
    return value;
  }

  // In the type in which the member reads it: lowering sees through bitcast-converts.
  Value OperandOf(const FusedMember& fused, size_t i) {
    const Value value = ValueOf(fused.operands[i]);
    const DType type = fused.instruction->operand(static_cast<int64_t>(i))->shape()->dtype();
    return program_.TypeOf(value) == type ? value : program_.AddBitcast(value, type);
  }

  Value AddBroadcast(const FusedMember& fused) {
    const Instruction& broadcast = *fused.instruction;
    if (fused.operands[0] >= 0 || broadcast.operand(0)->shape()->element_count() == 1) {
      return OperandOf(fused, 0);
    }
    StridedView view = BroadcastView(broadcast);
    if (view.IsDense()) return OperandOf(fused, 0);
    sources_.push_back(-1 - fused.operands[0]);
    return program_.AddViewInput(broadcast.shape()->dtype(), std::move(view));
  }

  ElementwiseProgram program_;
  int64_t element_count_;
  std::span<const Shape* const> externals_;
  std::vector<Value> external_;  // by external; -1: not read yet
  std::vector<Value> members_;
  std::vector<int32_t> sources_;
};

}  // namespace

ProgramKernel::ProgramKernel(ElementwiseProgram program, std::vector<int32_t> sources,
                             int64_t element_count, std::vector<int64_t> operand_bytes,
                             std::vector<int64_t> result_bytes)
    : program_(std::move(program)),
      sources_(std::move(sources)),
      count_(element_count),
      moves_(operand_bytes.size(), 1),
      in_place_(operand_bytes.size(), 1),
      operand_bytes_(std::move(operand_bytes)),
      result_bytes_(std::move(result_bytes)) {
  std::vector<uint8_t> read(operand_bytes_.size(), 0);
  for (size_t k = 0; k < sources_.size(); ++k) {
    const size_t operand = static_cast<size_t>(sources_[k]);
    read[operand] = 1;
    if (!program_.IsArrayInput(static_cast<int64_t>(k))) moves_[operand] = 0;
    if (!program_.MayOverwrite(static_cast<int64_t>(k))) in_place_[operand] = 0;
  }
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] == 0) moves_[i] = in_place_[i] = 0;
  }
  position_matters_ = program_.DependsOnPosition();
  program_.KeepConstants(count_);
}

bool ProgramKernel::InPlace(int64_t operand) const {
  return in_place_[static_cast<size_t>(operand)] != 0;
}
bool ProgramKernel::IsElementwiseIn(int64_t operand) const {
  return moves_[static_cast<size_t>(operand)] != 0;
}

void ProgramKernel::Run(ConstBuffers operands, Buffers results, Scratch& scratch) const {
  RunRange(0, count_, operands, results, scratch);
}

void ProgramKernel::RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                             Scratch& scratch) const {
  std::array<const std::byte*, kInlinePointers> storage;
  const std::byte** inputs = PointerArray(storage, sources_.size(), scratch);
  for (size_t k = 0; k < sources_.size(); ++k) {
    const size_t operand = static_cast<size_t>(sources_[k]);
    inputs[k] = operands[operand];
    // An operand that is also read through a view comes with its base address.
    if (moves_[operand] == 0 && program_.IsArrayInput(static_cast<int64_t>(k))) {
      inputs[k] += first * operand_bytes_[operand];
    }
  }
  program_.Run(first, count, {inputs, sources_.size()}, results, scratch);
}

void ProgramKernel::RunBatch(int64_t count, std::span<const BatchOperand> operands,
                             std::span<const BatchResult> results, Scratch& scratch) const {
  bool flat = !position_matters_;
  for (size_t i = 0; flat && i < operands.size(); ++i) {
    flat =
        moves_[i] != 0 ? operands[i].stride == count_ * operand_bytes_[i] : operands[i].stride == 0;
  }
  for (size_t i = 0; flat && i < results.size(); ++i) {
    flat = results[i].stride == count_ * result_bytes_[i];
  }
  if (!flat || operands.size() > kInlinePointers || results.size() > kInlinePointers) {
    Kernel::RunBatch(count, operands, results, scratch);
    return;
  }
  std::array<const std::byte*, kInlinePointers> inputs;
  std::array<std::byte*, kInlinePointers> outputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs[i] = operands[i].items[0];
  for (size_t i = 0; i < results.size(); ++i) outputs[i] = results[i].data;
  RunRange(0, count * count_, {inputs.data(), operands.size()}, {outputs.data(), results.size()},
           scratch);
}

bool CanFuseElementwise(const Instruction& instruction) {
  const Shape* shape = instruction.shape();
  if (!shape->IsArray()) return false;
  switch (instruction.opcode()) {
    case Opcode::kBitcastConvert:
    case Opcode::kReshape:
    case Opcode::kBitcast: {
      const Shape* operand = instruction.operand(0)->shape();
      return operand->IsArray() && operand->element_count() == shape->element_count() &&
             (instruction.opcode() == Opcode::kBitcastConvert ||
              operand->dtype() == shape->dtype());
    }
    case Opcode::kConstant: {
      const Literal& literal = *instruction.attributes<ConstantAttributes>().literal;
      return !literal.elided && IsSplat(literal);
    }
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kMap:
      return true;
    default:  // only elementwise operations do
      return IsElementwise(instruction.opcode());
  }
}

Expected<std::unique_ptr<Kernel>> MakeFusedElementwise(std::span<const FusedMember> members,
                                                       std::span<const Shape* const> externals,
                                                       std::span<const int32_t> outputs,
                                                       int64_t element_count) {
  GroupBuilder builder(externals, element_count);
  for (const FusedMember& member : members) {
    GSHARD_TRY(builder.Add(member));
  }
  std::vector<int64_t> operand_bytes, result_bytes;
  for (const Shape* external : externals) operand_bytes.push_back(StorageBytes(external->dtype()));
  for (int32_t output : outputs) {
    builder.AddOutput(output);
    result_bytes.push_back(
        StorageBytes(members[static_cast<size_t>(output)].instruction->shape()->dtype()));
  }
  return std::make_unique<ProgramKernel>(builder.TakeProgram(), builder.TakeSources(),
                                         element_count, std::move(operand_bytes),
                                         std::move(result_bytes));
}

Expected<std::unique_ptr<Kernel>> MakeSingleElementwise(const Instruction& instruction) {
  FusedMember member{&instruction, {}, {}, {}};
  std::vector<const Shape*> externals;
  for (const Instruction* operand : instruction.operands()) {
    member.operands.push_back(-1 - static_cast<int32_t>(externals.size()));
    externals.push_back(operand->shape());
  }
  const std::array<int32_t, 1> output{0};
  return MakeFusedElementwise(std::span(&member, 1), externals, output,
                              instruction.shape()->element_count());
}

}  // namespace gshard::cpu
