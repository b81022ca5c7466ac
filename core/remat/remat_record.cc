// See remat_record.h.

#include "core/remat/remat_record.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/analysis/trip_count.h"
#include "core/cost/memory/module_memory.h"
#include "core/cost/op_cost.h"
#include "core/cost/recomputation.h"
#include "core/estimate/device_program.h"
#include "core/remat/recomputation.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/inline_calls.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// Smaller values are left alone by the passes, too.
constexpr int64_t kMinBytes = 256;

// "tanh.3" of "tanh.3.remat.1".
std::string_view OriginalName(std::string_view name) { return name.substr(0, name.find(".remat")); }

// Is it of the backward pass, by the names that JAX gives?
bool IsBackward(const Instruction& x) {
  return IsRecomputed(x) || x.metadata().find("transpose(") != std::string_view::npos;
}

bool HasBackward(const Computation& computation) {
  return std::ranges::any_of(computation.instructions(), [](const Instruction* x) {
    return x->metadata().find("transpose(") != std::string_view::npos;
  });
}

// What makes a value, and whether a loop carries it to where it is saved.
struct Maker {
  const Instruction* instruction = nullptr;
  bool is_carried = false;
};

// What of a loop's body makes the leaf of its result: of a stack, the row that a trip stores. What
// is no stack the loop carries.
Maker MakerInLoop(const Instruction& loop, uint32_t leaf) {
  const Computation& body = *loop.called(1);
  const Instruction* root = body.root();
  if (root->opcode() != Opcode::kTuple || leaf >= root->operands().size()) return {&loop};
  const Instruction* x = root->operand(leaf);
  const bool is_stack = x->opcode() == Opcode::kDynamicUpdateSlice;
  if (is_stack) x = x->operand(1);
  while (x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast) x = x->operand(0);
  const bool is_state =
      x->opcode() == Opcode::kGetTupleElement && x->operand(0) == body.parameter(0);
  if (is_stack && is_state) {
    return {root->operand(x->attributes<GetTupleElementAttributes>().index), true};
  }
  return {x, !is_stack};
}

class RecordMaker {
 public:
  RecordMaker(const RematRecordInput& input, Module& flat)
      : input_(input), flat_(flat), lines_(flat) {
    for (const Computation* computation : flat.computations()) {
      for (const Instruction* x : computation->instructions()) by_name_.emplace(x->name(), x);
    }
  }

  RematRecord Make() {
    FindResiduals();
    std::unordered_map<std::string_view, int64_t> bytes_of;
    std::vector<std::string_view> names;
    for (const DroppedValue& value : input_.dropped) {
      const auto [it, is_new] = bytes_of.try_emplace(OriginalName(value.name), value.bytes);
      if (is_new) names.push_back(it->first);
      it->second = std::max(it->second, value.bytes);
    }
    RematRecord record;
    for (const std::string_view name : names) {
      const auto residual = residuals_.find(name);
      RematValue value = ValueOf(name, bytes_of.at(name));
      value.is_residual = residual != residuals_.end();
      if (value.is_residual) value.bytes = residual->second.bytes;
      record.recomputed.push_back(std::move(value));
    }
    for (const std::string_view name : order_) {
      if (bytes_of.contains(name)) continue;
      RematValue value = ValueOf(name, residuals_.at(name).bytes);
      value.is_residual = true;
      value.is_carried = residuals_.at(name).is_carried;
      record.kept.push_back(std::move(value));
    }
    return record;
  }

 private:
  // Values of the entry that are alive when the backward pass starts to read them; where no name
  // tells that pass apart, those that are held over the peak.
  void FindResiduals() {
    MemoryOptions options = input_.memory;
    options.by_sharding = input_.is_whole;
    const ModuleMemory memory(flat_, options);
    const BufferGraph& graph = memory.entry().graph;
    std::vector<bool> is_residual(graph.buffers.size(), false);
    if (HasBackward(*flat_.entry())) {
      for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
        if (!IsBackward(*graph.nodes[node])) continue;
        for (const uint32_t buffer : graph.reads[node]) {
          is_residual[buffer] = !IsBackward(*graph.buffers[buffer].owner);
        }
      }
    } else {
      const Recomputation recomputation(flat_, memory.entry());
      for (uint32_t buffer = 0; buffer < graph.buffers.size(); ++buffer) {
        is_residual[buffer] = recomputation.IsIdleAtPeak(buffer);
      }
    }
    for (uint32_t buffer = 0; buffer < graph.buffers.size(); ++buffer) {
      if (is_residual[buffer]) AddResidual(graph.buffers[buffer]);
    }
  }

  void AddResidual(const Buffer& buffer) {
    Maker maker{buffer.owner};
    if (buffer.owner->opcode() == Opcode::kWhile) maker = MakerInLoop(*buffer.owner, buffer.leaf);
    const Instruction* x = maker.instruction;
    switch (x->opcode()) {  // what is there anyway
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kIota:
      case Opcode::kGetTupleElement:
        return;
      case Opcode::kBroadcast:
        if (x->operand(0)->opcode() == Opcode::kConstant) return;
        break;
      default:  // computed
        break;
    }
    if (buffer.bytes < kMinBytes) return;
    const auto [it, is_new] = residuals_.try_emplace(x->name(), Residual{0, true});
    it->second.bytes += buffer.bytes;
    it->second.is_carried = it->second.is_carried && maker.is_carried;
    if (is_new) order_.push_back(x->name());
  }

  RematValue ValueOf(std::string_view name, int64_t bytes) const {
    RematValue value;
    value.name = name;
    value.bytes = bytes;
    if (const auto found = by_name_.find(name); found != by_name_.end()) {
      value.source = lines_.TextOf(*found->second);
      value.op_name = OpNameOf(*found->second);
      value.shape = ToString(found->second->shape(), /*layouts=*/false);
    }
    return value;
  }

  const RematRecordInput& input_;
  Module& flat_;
  SourceLines lines_;
  std::unordered_map<std::string_view, const Instruction*> by_name_;
  struct Residual {
    int64_t bytes = 0;
    bool is_carried = false;
  };
  std::unordered_map<std::string_view, Residual> residuals_;
  std::vector<std::string_view> order_;  // of residuals, as found
};

// FLOPs of a program of one device, by source line, of what is computed again.
class FlopsAgain {
 public:
  explicit FlopsAgain(const Module& module) : lines_(module) { Visit(*module.entry(), 1); }
  std::map<std::string, double> Take() { return std::move(flops_); }

 private:
  void Visit(const Computation& computation, double times) {
    for (const Instruction* x : computation.instructions()) {
      switch (x->opcode()) {  // what runs other computations
        case Opcode::kWhile: {
          const double trips = static_cast<double>(TripCount(*x).value_or(1));
          Visit(*x->called(1), times * trips);
          break;
        }
        case Opcode::kConditional:
        case Opcode::kCall:
        case Opcode::kFusion:
          for (const Computation* called : x->called()) Visit(*called, times);
          break;
        default:  // runs nothing
          if (x->name().find(".remat") == std::string_view::npos) break;
          flops_[lines_.TextOf(*x)] += times * CostOf(*x).flops;
      }
    }
  }

  SourceLines lines_;
  std::map<std::string, double> flops_;
};

Expected<std::map<std::string, double>> FlopsAgainOf(const Module& module,
                                                     const RematRecordInput& input) {
  DeviceProgramOptions way;
  way.num_partitions = input.num_partitions;
  way.is_partitioned = !input.is_whole;
  way.propagation = input.propagation;
  Expected<DeviceProgram> program = MakeDeviceProgram(module.Clone(), way);
  if (!program) return Fail(std::move(program.error()));
  return FlopsAgain(*program->module).Take();
}

bool HasClones(const Module& module) {
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(), [](const Instruction* x) {
      return x->name().find(".remat") != std::string_view::npos;
    });
  });
}

}  // namespace

Expected<RematRecord> MakeRematRecord(const RematRecordInput& input) {
  const std::unique_ptr<Module> flat = input.before.Clone();
  if (input.is_whole) {
    PassContext context;
    context.propagation = input.propagation;
    PerDeviceOptions way;
    way.num_partitions = input.num_partitions;
    if (auto done = CompleteShardings(*flat, context, way); !done) return Fail(done.error());
  } else if (auto done = InlineCalls(*flat); !done) {
    return Fail(done.error());
  }
  ForwardTupleElements(*flat);
  RemoveDeadCode(*flat);
  RematRecord record = RecordMaker(input, *flat).Make();
  auto flops = FlopsAgainOf(input.after, input);
  if (!flops) return Fail(std::move(flops.error()));
  record.flops = std::move(*flops);
  if (!HasClones(input.before)) return record;
  auto already = FlopsAgainOf(input.before, input);
  if (!already) return Fail(std::move(already.error()));
  for (auto& [line, again] : record.flops) {
    if (const auto found = already->find(line); found != already->end()) again -= found->second;
  }
  return record;
}

}  // namespace gshard
