// Running and laying out elementwise programs; how each instruction becomes steps is in
// elementwise_lowering.cc.
#include "backends/cpu/elementwise/elementwise_program.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gshard::cpu {
namespace {

// Temporaries and the tiles of inputs and outputs together stay below this.
constexpr int64_t kTileBytes = 24 * 1024;
constexpr int64_t kMinTile = 128;
constexpr int64_t kMaxTile = 8192;
constexpr int64_t kTileMultiple = 64;  // keeps every slot 64-byte aligned
constexpr int64_t kMaxKept = 512;      // elements of a constant that is kept written out

// (i / inner) % size for i from `first`.
template <typename T>
void FillIota(T* out, int64_t first, int64_t count, int64_t inner, int64_t size) {
  if (inner == 1) {
    int64_t value = first % size;
    for (int64_t i = 0; i < count;) {
      const int64_t n = std::min(count - i, size - value);
      for (int64_t k = 0; k < n; ++k) out[i + k] = static_cast<T>(value + k);
      i += n;
      value = 0;
    }
    return;
  }
  int64_t value = (first / inner) % size;
  int64_t within = first % inner;
  for (int64_t i = 0; i < count;) {
    const int64_t n = std::min(count - i, inner - within);
    std::fill_n(out + i, n, static_cast<T>(value));
    i += n;
    within = 0;
    if (++value == size) value = 0;
  }
}

}  // namespace

struct ElementwiseProgram::Frame {
  int64_t first;  // index of the tile's first element
  int64_t count;
  std::byte** registers;  // see Operation
  ConstBuffers inputs;
  const Scratch* scratch = nullptr;
};

// --- building: registers, inputs, outputs

ElementwiseProgram::Register ElementwiseProgram::NewRegister(int64_t bytes, bool uniform) {
  RegisterInfo info;
  info.bytes = static_cast<int32_t>(bytes);
  info.uniform = uniform;
  registers_.push_back(info);
  return static_cast<Register>(registers_.size() - 1);
}

ElementwiseProgram::Value ElementwiseProgram::NewValue(DType dtype, Register stored, bool uniform) {
  ValueInfo info;
  info.dtype = dtype;
  info.stored = stored;
  if (!IsSmallFloat(dtype)) info.computed = stored;
  info.uniform = uniform;
  values_.push_back(info);
  return static_cast<Value>(values_.size() - 1);
}

ElementwiseProgram::Value ElementwiseProgram::AddArrayInput(DType dtype) {
  const Register reg = NewRegister(StorageBytes(dtype), false);
  registers_[static_cast<size_t>(reg)].input = static_cast<int32_t>(inputs_.size());
  inputs_.push_back({InputKind::kArray, dtype, reg, {}});
  return NewValue(dtype, reg, false);
}

ElementwiseProgram::Value ElementwiseProgram::AddUniformInput(DType dtype) {
  const Register reg = NewRegister(StorageBytes(dtype), true);
  Step step;
  step.kind = StepKind::kSplat;
  step.out = reg;
  step.parameter = static_cast<int64_t>(inputs_.size());
  steps_.push_back(std::move(step));
  inputs_.push_back({InputKind::kUniform, dtype, reg, {}});
  return NewValue(dtype, reg, true);
}

ElementwiseProgram::Value ElementwiseProgram::AddViewInput(DType dtype, StridedView view) {
  const Register reg = NewRegister(StorageBytes(dtype), false);
  Step step;
  step.kind = StepKind::kReadView;
  step.out = reg;
  step.parameter = static_cast<int64_t>(inputs_.size());
  steps_.push_back(std::move(step));
  inputs_.push_back({InputKind::kView, dtype, reg, std::move(view)});
  return NewValue(dtype, reg, false);
}

ElementwiseProgram::Value ElementwiseProgram::AddIota(DType dtype, int64_t inner, int64_t size) {
  const DType type = size <= INT32_MAX ? DType::kS32 : DType::kS64;
  const Register reg = NewRegister(StorageBytes(type), false);
  Step step;
  step.kind = StepKind::kIota;
  step.out = reg;
  step.inner = inner;
  step.size = size;
  steps_.push_back(std::move(step));
  return AddConvert(NewValue(type, reg, false), dtype);
}

ElementwiseProgram::Value ElementwiseProgram::AddConstantBytes(DType dtype,
                                                               std::span<const std::byte> bytes) {
  const Register reg = NewRegister(StorageBytes(dtype), loop_depth_ == 0);
  Step step;
  step.kind = StepKind::kSplat;
  step.out = reg;
  step.parameter = -1;
  step.inner = static_cast<int64_t>(constants_.size());
  steps_.push_back(std::move(step));
  // 16 bytes each keeps every constant aligned for its type.
  constants_.resize(constants_.size() + 16);
  std::copy(bytes.begin(), bytes.end(), constants_.end() - 16);
  return NewValue(dtype, reg, loop_depth_ == 0);
}

ElementwiseProgram::Value ElementwiseProgram::AddConstant(const Literal& literal) {
  const DType dtype = literal.shape->dtype();
  if (literal.elided || literal.data.empty()) return AddZero(dtype);
  return AddConstantBytes(dtype, literal.data.first(static_cast<size_t>(StorageBytes(dtype))));
}

ElementwiseProgram::Value ElementwiseProgram::AddZero(DType dtype) {
  return AddConstantBytes(dtype, {});
}

ElementwiseProgram::Register ElementwiseProgram::Emit(TileFunction function,
                                                      std::span<const Register> in, int64_t bytes,
                                                      int64_t parameter) {
  CheckInternal(function != nullptr, "no tile function for an operation that was checked");
  bool uniform = loop_depth_ == 0;
  Step step;
  step.function = function;
  for (size_t i = 0; i < in.size(); ++i) {
    step.in[i] = in[i];
    uniform = uniform && registers_[static_cast<size_t>(in[i])].uniform;
  }
  step.out = NewRegister(bytes, uniform);
  step.parameter = parameter;
  steps_.push_back(std::move(step));
  return steps_.back().out;
}

ElementwiseProgram::Register ElementwiseProgram::Stored(Value value) {
  ValueInfo& info = values_[static_cast<size_t>(value)];
  if (info.stored == kNone) {
    const Register source = info.unrounded != kNone ? info.unrounded : info.computed;
    const DType dtype = info.dtype;
    const Register stored = Emit(StoreFunction(dtype), {{source}}, StorageBytes(dtype));
    values_[static_cast<size_t>(value)].stored = stored;
    return stored;
  }
  return info.stored;
}

ElementwiseProgram::Register ElementwiseProgram::Computed(Value value) {
  ValueInfo& info = values_[static_cast<size_t>(value)];
  if (info.computed == kNone) {
    const DType dtype = info.dtype;
    const Register computed = info.unrounded != kNone
                                  ? Emit(RoundFunction(dtype), {{info.unrounded}}, 4)
                                  : Emit(LoadFunction(dtype), {{info.stored}}, 4);
    values_[static_cast<size_t>(value)].computed = computed;
    return computed;
  }
  return info.computed;
}

void ElementwiseProgram::RestoreForms(std::span<const ValueInfo> saved) {
  std::copy(saved.begin(), saved.end(), values_.begin());
}

void ElementwiseProgram::AddOutput(Value value) { output_values_.push_back(value); }

void ElementwiseProgram::PlaceOutputs(bool outputs_may_alias) {
  std::vector<Register> sources;
  for (Value value : output_values_) sources.push_back(Stored(value));
  const auto copy = [&](Register reg) {
    const int64_t bytes = registers_[static_cast<size_t>(reg)].bytes;
    return Emit(CopyTileFunction(bytes), {{reg}}, bytes);
  };
  const bool all_last = outputs_may_alias && sources.size() > 1;
  if (all_last) {  // no input is read once the first output has been written
    for (Register& reg : sources) {
      if (registers_[static_cast<size_t>(reg)].input != kNone) reg = copy(reg);
    }
  }
  for (size_t k = 0; k < sources.size(); ++k) {
    Register reg = sources[k];
    const RegisterInfo& info = registers_[static_cast<size_t>(reg)];
    // Registers that other code owns, or that are written once for all tiles, are copied out.
    if (all_last || has_while_ || info.input != kNone || info.output != kNone || info.uniform) {
      reg = copy(reg);
    }
    registers_[static_cast<size_t>(reg)].output = static_cast<int32_t>(k);
    registers_[static_cast<size_t>(reg)].uniform = false;
    outputs_.push_back(reg);
  }
  if (outputs_may_alias && !all_last && !sources.empty() && !MayOverwriteAll()) {
    const Register direct = outputs_[0];
    registers_[static_cast<size_t>(direct)].output = kNone;
    outputs_[0] = copy(direct);
    registers_[static_cast<size_t>(outputs_[0])].output = 0;
    registers_[static_cast<size_t>(outputs_[0])].uniform = false;
  }
}

bool ElementwiseProgram::MayOverwriteAll() const {
  for (int64_t i = 0; i < input_count(); ++i) {
    if (!MayOverwrite(i) &&
        registers_[static_cast<size_t>(outputs_[0])].bytes ==
            registers_[static_cast<size_t>(inputs_[static_cast<size_t>(i)].reg)].bytes) {
      return false;
    }
  }
  return true;
}

void ElementwiseProgram::AssignSlots() {
  // Last step that touches each register.
  std::vector<size_t> last(registers_.size(), 0);
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (Register reg : steps_[i].in) {
      if (reg != kNone) last[static_cast<size_t>(reg)] = i;
    }
    if (steps_[i].out != kNone) last[static_cast<size_t>(steps_[i].out)] = i;
  }
  struct FreeSlot {
    int32_t bytes, slot;
  };
  std::vector<FreeSlot> free;
  const auto assign = [&](RegisterInfo& info) {
    if (info.slot != kNone || info.input != kNone || info.output != kNone) return;
    const auto found = std::find_if(free.begin(), free.end(),
                                    [&](const FreeSlot& f) { return f.bytes == info.bytes; });
    if (found != free.end()) {
      info.slot = found->slot;
      free.erase(found);
      return;
    }
    info.slot = static_cast<int32_t>(slot_offsets_.size());
    slot_offsets_.push_back(bytes_per_element_);
    bytes_per_element_ += info.bytes;
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.out != kNone) assign(registers_[static_cast<size_t>(step.out)]);
    for (Register reg : step.carried) assign(registers_[static_cast<size_t>(reg)]);
    if (has_while_) continue;
    // Operands that end here free their slots for later results (not for this one: some loops
    // write another element size than they read).
    for (size_t k = 0; k < 3; ++k) {
      const Register reg = step.in[k];
      if (reg == kNone || last[static_cast<size_t>(reg)] != i) continue;
      RegisterInfo& info = registers_[static_cast<size_t>(reg)];
      if (info.slot == kNone || info.uniform) continue;
      const bool seen = std::any_of(free.begin(), free.end(),
                                    [&](const FreeSlot& f) { return f.slot == info.slot; });
      if (!seen) free.push_back({info.bytes, info.slot});
    }
  }
}

// or(shift-left(x, c), shift-right-logical(x, width - c)) by constants: one operation instead of
// three. Steps that nothing reads any more go.
void ElementwiseProgram::JoinRotations() {
  if (has_while_) return;
  std::vector<size_t> made_by(registers_.size(), steps_.size()), uses(registers_.size(), 0);
  for (size_t i = 0; i < steps_.size(); ++i) {
    made_by[static_cast<size_t>(steps_[i].out)] = i;
    for (Register reg : steps_[i].in) {
      if (reg != kNone) ++uses[static_cast<size_t>(reg)];
    }
  }
  for (Register reg : outputs_) ++uses[static_cast<size_t>(reg)];
  const auto maker = [&](Register reg) -> const Step* {
    const size_t i = made_by[static_cast<size_t>(reg)];
    return i < steps_.size() ? &steps_[i] : nullptr;
  };
  // The constant that a register has; -1 if it has none.
  const auto constant = [&](Register reg, int64_t bytes) -> int64_t {
    const Step* step = maker(reg);
    if (step == nullptr || step->kind != StepKind::kSplat || step->parameter >= 0) return -1;
    uint64_t value = 0;
    std::memcpy(&value, constants_.data() + step->inner, static_cast<size_t>(bytes));
    return value <= INT8_MAX ? static_cast<int64_t>(value) : -1;
  };
  for (Step& step : steps_) {
    if (step.kind != StepKind::kFunction || step.in[1] == kNone) continue;
    const int64_t bytes = registers_[static_cast<size_t>(step.out)].bytes;
    const Rotation rotation = RotationOf(bytes);
    if (rotation.combine == nullptr || step.function != rotation.combine) continue;
    const Step *left = maker(step.in[0]), *right = maker(step.in[1]);
    if (left == nullptr || right == nullptr) continue;
    if (left->function == rotation.right) std::swap(left, right);
    if (left->function != rotation.left || right->function != rotation.right ||
        left->in[0] != right->in[0] || uses[static_cast<size_t>(left->out)] != 1 ||
        uses[static_cast<size_t>(right->out)] != 1) {
      continue;
    }
    const int64_t by = constant(left->in[1], bytes), back = constant(right->in[1], bytes);
    if (by <= 0 || back <= 0 || by + back != 8 * bytes) continue;
    for (const Step* gone : {left, right}) {
      --uses[static_cast<size_t>(gone->in[0])];
      --uses[static_cast<size_t>(gone->in[1])];
      uses[static_cast<size_t>(gone->out)] = 0;
    }
    ++uses[static_cast<size_t>(left->in[0])];
    step.in[0] = left->in[0];
    step.in[1] = kNone;
    step.function = rotation.rotate;
    step.parameter = by;
  }
  std::erase_if(steps_, [&](const Step& step) {
    return step.kind != StepKind::kWhile && uses[static_cast<size_t>(step.out)] == 0;
  });
}

// Registers become places in the list of pointers of a run.
void ElementwiseProgram::NumberPointers() {
  std::vector<RegisterInfo> places(1 + slot_offsets_.size());
  std::vector<Register> place_of(registers_.size(), 0);
  for (size_t i = 0; i < registers_.size(); ++i) {
    const RegisterInfo& info = registers_[i];
    if (info.input != kNone || info.output != kNone) {
      place_of[i] = static_cast<Register>(places.size());
      moving_.push_back(place_of[i]);
      places.push_back(info);
    } else if (info.slot != kNone) {
      place_of[i] = 1 + info.slot;
      places[static_cast<size_t>(place_of[i])] = info;
    }
  }
  const auto number = [&](Register& reg) {
    if (reg != kNone) reg = place_of[static_cast<size_t>(reg)];
  };
  for (Step& step : steps_) {
    for (Register& reg : step.in) number(reg);
    number(step.out);
    for (Register& reg : step.carried) number(reg);
    for (Register& reg : step.next) number(reg);
    Operation operation;
    if (step.kind == StepKind::kFunction) {
      operation.function = step.function;
      operation.parameter = step.parameter;
      for (size_t k = 0; k < 3; ++k) operation.in[k] = std::max(step.in[k], 0);
      operation.out = step.out;
    }
    operations_.push_back(operation);
  }
  for (Input& input : inputs_) number(input.reg);
  for (Register& reg : outputs_) number(reg);
  registers_ = std::move(places);
}

void ElementwiseProgram::Build(bool outputs_may_alias) {
  PlaceOutputs(outputs_may_alias);
  JoinRotations();
  const auto is_uniform = [&](const Step& step) {
    return step.out != kNone && registers_[static_cast<size_t>(step.out)].uniform;
  };
  const auto is_constant = [](const Step& step) {
    return step.kind == StepKind::kSplat && step.parameter < 0;
  };
  const auto middle = std::stable_partition(steps_.begin(), steps_.end(), is_uniform);
  prologue_ = static_cast<size_t>(middle - steps_.begin());
  splats_ = static_cast<size_t>(std::stable_partition(steps_.begin(), middle, is_constant) -
                                steps_.begin());
  AssignSlots();
  NumberPointers();
  int64_t bytes = bytes_per_element_;
  for (Register reg : moving_) bytes += registers_[static_cast<size_t>(reg)].bytes;
  tile_ = std::clamp(kTileBytes / std::max<int64_t>(bytes, 1), kMinTile, kMaxTile);
  tile_ = tile_ / kTileMultiple * kTileMultiple;
}

void ElementwiseProgram::KeepConstants(int64_t count) {
  const int64_t elements = (count + kTileMultiple - 1) / kTileMultiple * kTileMultiple;
  if (elements > std::min(kMaxKept, tile_)) return;
  kept_elements_ = elements;
  for (size_t i = 0; i < splats_; ++i) {
    const int64_t bytes = registers_[static_cast<size_t>(steps_[i].out)].bytes;
    kept_.resize(kept_.size() + static_cast<size_t>(elements * bytes));
    FillElements(kept_.data() + kept_.size() - elements * bytes,
                 constants_.data() + steps_[i].inner, bytes, elements);
  }
}

bool ElementwiseProgram::MayOverwrite(int64_t input) const {
  const Input& read = inputs_[static_cast<size_t>(input)];
  if (read.kind != InputKind::kArray || outputs_.empty()) return false;
  const Register out = outputs_[0];
  if (registers_[static_cast<size_t>(out)].bytes !=
      registers_[static_cast<size_t>(read.reg)].bytes) {
    return false;
  }
  bool written = false;
  for (const Step& step : steps_) {
    if (written) {
      for (Register reg : step.in) {
        if (reg == read.reg) return false;
      }
    }
    if (step.out == out) written = true;
  }
  return true;
}

bool ElementwiseProgram::DependsOnPosition() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.kind == StepKind::kIota || step.kind == StepKind::kReadView;
  });
}

// --- running

void ElementwiseProgram::RunStep(const Step& step, Frame& frame) const {
  switch (step.kind) {
    case StepKind::kSplat: {
      const std::byte* source = step.parameter >= 0
                                    ? frame.inputs[static_cast<size_t>(step.parameter)]
                                    : constants_.data() + step.inner;
      FillElements(frame.registers[step.out], source,
                   registers_[static_cast<size_t>(step.out)].bytes, frame.count);
      return;
    }
    case StepKind::kReadView: {
      const Input& input = inputs_[static_cast<size_t>(step.parameter)];
      input.view.Read(frame.inputs[static_cast<size_t>(step.parameter)], frame.first, frame.count,
                      frame.registers[step.out]);
      return;
    }
    case StepKind::kIota: {
      std::byte* out = frame.registers[step.out];
      if (registers_[static_cast<size_t>(step.out)].bytes == 4) {
        FillIota(reinterpret_cast<int32_t*>(out), frame.first, frame.count, step.inner, step.size);
      } else {
        FillIota(reinterpret_cast<int64_t*>(out), frame.first, frame.count, step.inner, step.size);
      }
      return;
    }
    case StepKind::kFunction:
    case StepKind::kWhile:
      throw InternalError("RunSteps runs these");
  }
}

void ElementwiseProgram::RunSteps(size_t begin, size_t end, Frame& frame) const {
  std::byte* const* const registers = frame.registers;
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = operations_[i];
    if (operation.function != nullptr) {
      operation.function({{registers[operation.in[0]], registers[operation.in[1]],
                           registers[operation.in[2]]},
                          registers[operation.out],
                          frame.count,
                          operation.parameter});
      continue;
    }
    const Step& step = steps_[i];
    if (step.kind != StepKind::kWhile) {
      RunStep(step, frame);
      continue;
    }
    // Elements whose condition has become false keep their values while the others go on.
    const size_t condition_end = i + 1 + static_cast<size_t>(step.inner);
    const size_t body_end = condition_end + static_cast<size_t>(step.size);
    uint8_t* active = reinterpret_cast<uint8_t*>(frame.registers[step.out]);
    std::memset(active, 1, static_cast<size_t>(frame.count));
    for (;;) {
      RunSteps(i + 1, condition_end, frame);
      const uint8_t* condition = reinterpret_cast<const uint8_t*>(frame.registers[step.in[0]]);
      uint8_t any = 0;
      for (int64_t k = 0; k < frame.count; ++k) {
        active[k] = static_cast<uint8_t>(active[k] & condition[k]);
        any = static_cast<uint8_t>(any | active[k]);
      }
      if (any == 0 || frame.scratch->Stopped()) break;
      RunSteps(condition_end, body_end, frame);
      for (size_t k = 0; k < step.carried.size(); ++k) {
        std::byte* old = frame.registers[step.carried[k]];
        const Tile tile{{active, frame.registers[step.next[k]], old}, old, frame.count, 0};
        SelectFunction(registers_[static_cast<size_t>(step.carried[k])].bytes)(tile);
      }
    }
    i = body_end - 1;
  }
}

void ElementwiseProgram::Run(int64_t first, int64_t count, ConstBuffers inputs, Buffers outputs,
                             Scratch& scratch) const {
  if (count <= 0) return;
  const Scratch::Mark mark = scratch.Position();
  const int64_t tile = std::min(tile_, (count + kTileMultiple - 1) / kTileMultiple * kTileMultiple);
  constexpr size_t kInlineRegisters = 24;
  std::byte* inline_registers[kInlineRegisters];
  std::byte** registers = inline_registers;
  if (registers_.size() > kInlineRegisters) {
    registers =
        reinterpret_cast<std::byte**>(scratch.Allocate(registers_.size() * sizeof(std::byte*)));
  }
  registers[0] = nullptr;
  if (bytes_per_element_ > 0) {
    std::byte* slots = scratch.Allocate(static_cast<size_t>(bytes_per_element_ * tile));
    for (size_t i = 0; i < slot_offsets_.size(); ++i) {
      registers[1 + i] = slots + slot_offsets_[i] * tile;
    }
  }
  size_t begin = 0;
  if (tile <= kept_elements_) {
    std::byte* constant = const_cast<std::byte*>(kept_.data());  // nothing writes there
    for (; begin < splats_; ++begin) {
      const Register reg = steps_[begin].out;
      registers[reg] = constant;
      constant += kept_elements_ * registers_[static_cast<size_t>(reg)].bytes;
    }
  }
  Frame frame{first, std::min(tile, count), registers, inputs, &scratch};
  RunSteps(begin, prologue_, frame);
  for (int64_t done = 0; done < count; done += tile) {
    frame.first = first + done;
    frame.count = std::min(tile, count - done);
    for (Register reg : moving_) {
      const RegisterInfo& info = registers_[static_cast<size_t>(reg)];
      registers[reg] =
          info.output != kNone
              ? outputs[static_cast<size_t>(info.output)] + done * info.bytes
              : const_cast<std::byte*>(inputs[static_cast<size_t>(info.input)]) + done * info.bytes;
    }
    RunSteps(prologue_, steps_.size(), frame);
  }
  scratch.Rewind(mark);
}

}  // namespace gshard::cpu
