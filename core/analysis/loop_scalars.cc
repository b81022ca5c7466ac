// Values of a loop's scalars: see loop_scalars.h. Elements are written down as a straight line of
// operations on registers, which then runs for each device and trip.

#include "core/analysis/loop_scalars.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/analysis/integer_elements.h"
#include "core/analysis/trip_count.h"
#include "ir/computation.h"
#include "ir/integer_operation.h"
#include "ir/literal.h"

namespace gshard {
namespace {

constexpr int kDeepest = 2000;                  // operands of operands
constexpr int64_t kMaxOperations = 50'000'000;  // that are run in all

enum class Depends : uint8_t { kNothing, kDevice, kTrip };

struct Operation {
  const Instruction* instruction = nullptr;  // whose opcode and type it has; null: given
  int64_t constant = 0;
  std::vector<int32_t> operands;  // registers
  Depends depends = Depends::kNothing;
  const Literal* table = nullptr;  // a lookup: operands are start indices
  std::vector<int64_t> within;     // ..to which this index within the slice is added
};

class ScalarProgram {
 public:
  ScalarProgram(const Instruction& loop, const LoopCounter& counter)
      : body_(*loop.called(1)), init_(loop.operand(0)), counter_(counter) {
    // Registers 0 and 1.
    Given(Depends::kDevice);
    Given(Depends::kTrip);
  }

  // The register of element `at` of x, row-major; -1: it is not known.
  int32_t Register(const Instruction* x, int64_t at, int depth = 0) {
    if (depth > kDeepest || !IsIntegral(x->shape())) return -1;
    auto [it, is_new] = registers_.try_emplace({x, at}, -1);
    if (!is_new) return it->second;
    const int32_t found = Find(x, at, depth + 1);
    registers_[{x, at}] = found;
    return found;
  }

  // Runs what depends on no more than `depends`, of what does not depend on less than `from`.
  void Run(Depends from, Depends depends, std::vector<int64_t>& values) const {
    for (size_t i = 2; i < operations_.size(); ++i) {
      const Operation& op = operations_[i];
      if (op.depends >= from && op.depends <= depends) values[i] = Value(op, values);
    }
  }

  size_t size() const { return operations_.size(); }
  // Registers of the device alone that others or `results` read.
  std::vector<int32_t> DeviceRegisters(std::span<const int32_t> results) const {
    std::vector<bool> read(operations_.size());
    auto note = [&](int32_t reg) {
      const auto r = static_cast<size_t>(reg);
      if (operations_[r].depends == Depends::kDevice) read[r] = true;
    };
    for (const Operation& op : operations_) {
      if (op.depends != Depends::kTrip) continue;
      for (int32_t operand : op.operands) note(operand);
    }
    for (int32_t result : results) note(result);
    std::vector<int32_t> list;
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i]) list.push_back(static_cast<int32_t>(i));
    }
    return list;
  }

 private:
  void Given(Depends depends) {
    operations_.emplace_back();
    operations_.back().depends = depends;
  }

  int32_t Add(Operation op) {
    for (int32_t operand : op.operands) {
      if (operand < 0) return -1;
      op.depends = std::max(op.depends, operations_[static_cast<size_t>(operand)].depends);
    }
    operations_.push_back(std::move(op));
    return static_cast<int32_t>(operations_.size()) - 1;
  }

  int32_t Constant(int64_t value) {
    Operation op;
    op.constant = value;
    return Add(std::move(op));
  }

  int32_t Find(const Instruction* x, int64_t at, int depth) {
    switch (x->opcode()) {
      case Opcode::kPartitionId:
        return 0;
      case Opcode::kConstant: {
        const Literal* literal = x->attributes<ConstantAttributes>().literal;
        return literal->elided ? -1 : Constant(ElementAsInt64(*literal, at));
      }
      case Opcode::kIota: {
        const int64_t dim = x->attributes<IotaAttributes>().dimension;
        return Constant(IndexAt(x->shape()->dims(), at)[static_cast<size_t>(dim)]);
      }
      case Opcode::kReshape:
      case Opcode::kBitcast:
      case Opcode::kCopy:
      case Opcode::kOptBarrier:
        return Register(x->operand(0), at, depth);
      case Opcode::kBroadcast:
        return Broadcast(x, at, depth);
      case Opcode::kSlice:
        return Slice(x, at, depth);
      case Opcode::kDynamicSlice:
        return Lookup(x, at, depth);
      case Opcode::kGetTupleElement:
        return Carried(x, at, depth);
      default:  // arithmetic, or not understood
        return Elementwise(x, at, depth);
    }
  }

  int32_t Broadcast(const Instruction* x, int64_t at, int depth) {
    const std::vector<int64_t> index = IndexAt(x->shape()->dims(), at);
    std::vector<int64_t> inner;
    for (int64_t dim : x->attributes<DimensionsAttributes>().dimensions) {
      inner.push_back(index[static_cast<size_t>(dim)]);
    }
    return Register(x->operand(0), RowMajor(x->operand(0)->shape()->dims(), inner), depth);
  }

  int32_t Slice(const Instruction* x, int64_t at, int depth) {
    std::vector<int64_t> index = IndexAt(x->shape()->dims(), at);
    const auto& slice = x->attributes<SliceAttributes>();
    for (size_t i = 0; i < index.size(); ++i) {
      index[i] = slice.starts[i] + index[i] * slice.strides[i];
    }
    return Register(x->operand(0), RowMajor(x->operand(0)->shape()->dims(), index), depth);
  }

  // Of a table: a constant, reshaped perhaps.
  int32_t Lookup(const Instruction* x, int64_t at, int depth) {
    const Instruction* array = x->operand(0);
    while (array->opcode() == Opcode::kReshape || array->opcode() == Opcode::kCopy) {
      array = array->operand(0);
    }
    if (array->opcode() != Opcode::kConstant) return -1;
    Operation op;
    op.instruction = x;
    op.table = array->attributes<ConstantAttributes>().literal;
    if (op.table->elided) return -1;
    op.within = IndexAt(x->shape()->dims(), at);
    for (int64_t i = 1; i < x->operand_count(); ++i) {
      op.operands.push_back(Register(x->operand(i), 0, depth));
    }
    if (op.operands.size() != op.within.size()) return -1;
    return Add(std::move(op));
  }

  // The counter, or what the loop carries from its beginning on.
  int32_t Carried(const Instruction* x, int64_t at, int depth) {
    const int64_t element = x->attributes<GetTupleElementAttributes>().index;
    const Instruction* tuple = x->operand(0);
    while (tuple->opcode() == Opcode::kOptBarrier) tuple = tuple->operand(0);
    if (tuple->opcode() == Opcode::kTuple) return Register(tuple->operand(element), at, depth);
    if (tuple != body_.parameter(0)) return -1;
    if (element == counter_.element) return Counter();
    const Instruction* root = body_.root();
    if (root->opcode() != Opcode::kTuple || init_->opcode() != Opcode::kTuple) return -1;
    const Instruction* next = root->operand(element);
    const bool is_unchanged = next->opcode() == Opcode::kGetTupleElement &&
                              next->operand(0) == tuple &&
                              next->attributes<GetTupleElementAttributes>().index == element;
    return is_unchanged ? Register(init_->operand(element), at, depth) : -1;
  }

  int32_t Counter() {
    if (counter_.start == 0 && counter_.step == 1) return 1;
    Operation op;
    op.instruction = nullptr;
    op.operands = {1};
    op.within = {counter_.start, counter_.step};
    return Add(std::move(op));
  }

  int32_t Elementwise(const Instruction* x, int64_t at, int depth) {
    if (!IsIntegerOperation(x->opcode())) return -1;
    Operation op;
    op.instruction = x;
    for (const Instruction* operand : x->operands()) {
      const bool is_scalar = operand->shape()->IsArray() && operand->shape()->rank() == 0;
      op.operands.push_back(Register(operand, is_scalar ? 0 : at, depth));
    }
    return Add(std::move(op));
  }

  static int64_t LookUp(const Operation& op, const std::vector<int64_t>& values) {
    const Shape* shape = op.instruction->operand(0)->shape();
    std::vector<int64_t> index(op.within.size());
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t last = shape->dim(static_cast<int64_t>(i)) -
                           op.instruction->shape()->dim(static_cast<int64_t>(i));
      const int64_t start = values[static_cast<size_t>(op.operands[i])];
      index[i] = std::clamp<int64_t>(start, 0, last) + op.within[i];
    }
    return ElementAsInt64(*op.table, RowMajor(shape->dims(), index));
  }

  static int64_t Value(const Operation& op, const std::vector<int64_t>& values) {
    if (op.table != nullptr) return LookUp(op, values);
    int64_t in[3] = {};
    const size_t count = op.operands.size();
    for (size_t i = 0; i < count; ++i) in[i] = values[static_cast<size_t>(op.operands[i])];
    if (op.instruction == nullptr) {
      return count == 0 ? op.constant : op.within[0] + in[0] * op.within[1];
    }
    return EvaluateInteger(*op.instruction, {in, count});
  }

  const Computation& body_;
  const Instruction* init_;
  const LoopCounter counter_;
  std::vector<Operation> operations_;  // operands first
  std::map<std::pair<const Instruction*, int64_t>, int32_t> registers_;
};

// Devices by what they have in the registers that trips read.
std::vector<std::vector<int64_t>> DevicesAlike(const ScalarProgram& program,
                                               std::span<const int32_t> results, int64_t devices) {
  const std::vector<int32_t> registers = program.DeviceRegisters(results);
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<std::vector<int64_t>> groups;
  std::vector<int64_t> values(program.size());
  program.Run(Depends::kNothing, Depends::kNothing, values);
  for (int64_t device = 0; device < devices; ++device) {
    values[0] = device;
    program.Run(Depends::kDevice, Depends::kDevice, values);
    std::vector<int64_t> key;
    for (int32_t reg : registers) key.push_back(values[static_cast<size_t>(reg)]);
    auto [it, is_new] = known.try_emplace(std::move(key), groups.size());
    if (is_new) groups.emplace_back();
    groups[it->second].push_back(device);
  }
  return groups;
}

// Groups that turn out to have equal values become one.
LoopScalars Merged(LoopScalars found, size_t scalars) {
  const size_t rows = scalars * static_cast<size_t>(found.trips);
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<size_t> kept;
  LoopScalars merged;
  merged.trips = found.trips;
  for (size_t group = 0; group < found.groups.size(); ++group) {
    std::vector<int64_t> column(rows);
    for (size_t row = 0; row < rows; ++row) {
      column[row] = found.values[row * found.groups.size() + group];
    }
    auto [it, is_new] = known.try_emplace(std::move(column), kept.size());
    if (is_new) {
      kept.push_back(group);
      merged.groups.push_back(std::move(found.groups[group]));
      continue;
    }
    std::vector<int64_t>& into = merged.groups[it->second];
    into.insert(into.end(), found.groups[group].begin(), found.groups[group].end());
  }
  for (std::vector<int64_t>& group : merged.groups) std::sort(group.begin(), group.end());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t group : kept) {
      merged.values.push_back(found.values[row * found.groups.size() + group]);
    }
  }
  return merged;
}

}  // namespace

std::optional<LoopScalars> EvaluateInLoop(const Instruction& while_loop,
                                          std::span<const Instruction* const> scalars,
                                          int64_t device_count) {
  const std::optional<LoopCounter> counter = CounterOf(while_loop);
  if (!counter || counter->trips < 1) return std::nullopt;
  ScalarProgram program(while_loop, *counter);
  std::vector<int32_t> results;
  for (const Instruction* scalar : scalars) {
    if (!scalar->shape()->IsArray() || scalar->shape()->element_count() != 1) return std::nullopt;
    results.push_back(program.Register(scalar, 0));
    if (results.back() < 0) return std::nullopt;
  }
  LoopScalars found;
  found.trips = counter->trips;
  const auto size = static_cast<int64_t>(program.size());
  if (device_count > kMaxOperations / size) return std::nullopt;
  found.groups = DevicesAlike(program, results, device_count);
  const auto groups = static_cast<int64_t>(found.groups.size());
  if (found.trips > kMaxOperations / size / groups) return std::nullopt;
  found.values.resize(scalars.size() * static_cast<size_t>(found.trips * groups));
  for (size_t group = 0; group < found.groups.size(); ++group) {
    std::vector<int64_t> values(program.size());
    values[0] = found.groups[group][0];
    program.Run(Depends::kNothing, Depends::kDevice, values);
    for (int64_t trip = 0; trip < found.trips; ++trip) {
      values[1] = trip;
      program.Run(Depends::kTrip, Depends::kTrip, values);
      for (size_t i = 0; i < results.size(); ++i) {
        const size_t row = i * static_cast<size_t>(found.trips) + static_cast<size_t>(trip);
        found.values[row * found.groups.size() + group] = values[static_cast<size_t>(results[i])];
      }
    }
  }
  return Merged(std::move(found), scalars.size());
}

}  // namespace gshard
