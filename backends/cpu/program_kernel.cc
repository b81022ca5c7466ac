// Binding of instruction operands to the inputs of elementwise programs.
#include "backends/cpu/program_kernel.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <array>

#include "ir/module.h"

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
  GroupBuilder(std::span<const Instruction* const> externals, int64_t element_count)
      : element_count_(element_count) {
    for (size_t i = 0; i < externals.size(); ++i) {
      external_.try_emplace(externals[i], static_cast<int32_t>(i));
    }
  }

  // Null: fine. Else the error of a member that cannot be evaluated.
  Expected<bool> Add(const Instruction& member) {
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
        value = AddBroadcast(member);
        break;
      case Opcode::kReshape:
      case Opcode::kBitcast:
        value = ValueOf(member.operand(0));
        break;
      default: {
        std::vector<Value> operands;
        for (const Instruction* operand : member.operands()) operands.push_back(ValueOf(operand));
        if (member.opcode() == Opcode::kMap) {
          auto values = program_.AddCall(*member.called(0), operands);
          if (!values) return Fail(values.error());
          value = values->front();
        } else {
          auto added = program_.AddInstruction(member, operands);
          if (!added) return Fail(added.error());
          value = *added;
        }
      }
    }
    values_.insert_or_assign(&member, value);
    return true;
  }

  void AddOutput(const Instruction* output) { program_.AddOutput(ValueOf(output)); }

  ElementwiseProgram TakeProgram() {
    program_.Build();
    return std::move(program_);
  }
  std::vector<int32_t> TakeSources() { return std::move(sources_); }

 private:
  Value ValueOf(const Instruction* instruction) {
    if (const auto found = values_.find(instruction); found != values_.end()) return found->second;
    const int32_t operand = external_.at(instruction);
    const Shape* shape = instruction->shape();
    const bool uniform = shape->element_count() == 1 && element_count_ != 1;
    const Value value =
        uniform ? program_.AddUniformInput(shape->dtype()) : program_.AddArrayInput(shape->dtype());
    sources_.push_back(operand);
    values_.insert_or_assign(instruction, value);
    return value;
  }

  Value AddBroadcast(const Instruction& broadcast) {
    const Instruction* operand = broadcast.operand(0);
    if (operand->shape()->element_count() == 1 || values_.contains(operand)) {
      return ValueOf(operand);
    }
    StridedView view = BroadcastView(broadcast);
    if (view.IsDense()) return ValueOf(operand);
    sources_.push_back(external_.at(operand));
    return program_.AddViewInput(broadcast.shape()->dtype(), std::move(view));
  }

  ElementwiseProgram program_;
  int64_t element_count_;
  tsl::robin_map<const Instruction*, int32_t> external_;
  tsl::robin_map<const Instruction*, Value> values_;
  std::vector<int32_t> sources_;
};

}  // namespace

ProgramKernel::ProgramKernel(ElementwiseProgram program, std::vector<int32_t> sources,
                             std::span<const int32_t> same_as, int64_t element_count,
                             std::vector<int64_t> operand_bytes, std::vector<int64_t> result_bytes)
    : program_(std::move(program)),
      sources_(std::move(sources)),
      count_(element_count),
      moves_(same_as.size(), 1),
      in_place_(same_as.size(), 1),
      operand_bytes_(std::move(operand_bytes)),
      result_bytes_(std::move(result_bytes)) {
  std::vector<uint8_t> read(same_as.size(), 0);
  for (size_t k = 0; k < sources_.size(); ++k) {
    const size_t operand = static_cast<size_t>(sources_[k]);
    read[operand] = 1;
    if (!program_.IsArrayInput(static_cast<int64_t>(k))) moves_[operand] = 0;
    if (!program_.MayOverwrite(static_cast<int64_t>(k))) in_place_[operand] = 0;
  }
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i] == 0) moves_[i] = in_place_[i] = 0;
  }
  for (size_t i = 0; i < read.size(); ++i) {
    const size_t first = static_cast<size_t>(same_as[i]);
    moves_[i] = moves_[first];
    in_place_[i] = in_place_[first];
  }
  position_matters_ = program_.DependsOnPosition();
}

bool ProgramKernel::InPlace(int64_t operand) const {
  return in_place_[static_cast<size_t>(operand)] != 0;
}
bool ProgramKernel::MovesWithResult(int64_t operand) const {
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
      return shape->element_count() == 1 || (!literal.elided && IsSplat(literal));
    }
    case Opcode::kIota:
    case Opcode::kBroadcast:
    case Opcode::kMap:
      return true;
    default:
      return IsElementwise(instruction.opcode());
  }
}

Expected<std::unique_ptr<Kernel>> MakeFusedElementwise(
    std::span<const Instruction* const> members, std::span<const Instruction* const> externals,
    std::span<const Instruction* const> outputs) {
  const int64_t count = outputs[0]->shape()->element_count();
  GroupBuilder builder(externals, count);
  for (const Instruction* member : members) {
    auto added = builder.Add(*member);
    if (!added) return Fail(added.error());
  }
  std::vector<int64_t> operand_bytes, result_bytes;
  std::vector<int32_t> same_as;
  for (const Instruction* external : externals) {
    const auto first = std::find(externals.begin(), externals.end(), external);
    same_as.push_back(static_cast<int32_t>(first - externals.begin()));
    operand_bytes.push_back(StorageBytes(external->shape()->dtype()));
  }
  for (const Instruction* output : outputs) {
    builder.AddOutput(output);
    result_bytes.push_back(StorageBytes(output->shape()->dtype()));
  }
  return std::make_unique<ProgramKernel>(builder.TakeProgram(), builder.TakeSources(), same_as,
                                         count, std::move(operand_bytes), std::move(result_bytes));
}

}  // namespace gshard::cpu
