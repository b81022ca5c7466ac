// Values for fast memory. See fast_values.h.

#include "core/cost/memory/fast_values.h"

#include <algorithm>

#include "core/cost/memory/fast_memory.h"
#include "core/cost/memory/value_lives.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// How often the compiler takes a loop's body to run when it compares values: it says 5 in its
// flags' names (`while_execution_count`).
constexpr int64_t kTripsOfLoop = 5;
constexpr int64_t kMaxRuns = int64_t{1} << 20;  // of a body within bodies

// Steps in which a value must be there, and the last of them in its own computation.
struct ValueUse {
  StepSpan steps;
  uint32_t step = 0;
};

// Ranges that are at one place.
struct ValueParts {
  std::vector<StepSpan> life;
  std::vector<ValueUse> uses;  // of the outermost range
  int64_t bytes = 0, moved_bytes = 0, accesses = 0;
  bool is_argument = false;  // of the program: a copy of it, while kernels read it
  bool is_carried = false;   // a loop changes it
  bool is_barred = false;
};

class FastValues {
 public:
  FastValues(const Computation& root, const FastMemoryInput& input)
      : input_(input),
        lives_(root, input.memories, input.calls, ValueLives::Memory::kBoth),
        parts_(lives_.ranges()),
        start_(lives_.ranges()) {
    for (const ComputationSteps& placed : lives_.computations()) AddRanges(placed);
    for (const ComputationSteps& placed : lives_.computations()) AddAccesses(placed);
  }

  FastMemoryPlan Plan() {
    JoinParts();
    const std::vector<uint32_t> order = ByStart();
    std::vector<FastMemoryValue> values;
    values.reserve(order.size());
    for (uint32_t range : order) values.push_back(ValueOf(parts_[range]));
    FastMemory memory(lives_.steps(), input_.capacity);
    for (const auto& [step, callee, result_bytes] : lives_.shared_calls()) {
      const auto end_address = input_.end_addresses.find(callee);
      if (end_address != input_.end_addresses.end())
        memory.Reserve({step, step}, end_address->second);
    }
    const std::vector<std::vector<FastUse>> uses = PlaceBestFirst(memory, values);
    std::vector<int32_t> value_of(lives_.ranges(), -1);
    for (size_t i = 0; i < order.size(); ++i) value_of[order[i]] = static_cast<int32_t>(i);
    FastMemoryPlan plan;
    plan.peak_bytes = memory.PeakBytes();
    plan.end_address = memory.EndAddress();
    for (const ComputationSteps& placed : lives_.computations()) {
      std::vector<uint32_t> until(placed.liveness->ranges.size(), 0);
      for (uint32_t i = 0; i < until.size(); ++i) {
        const int32_t value = value_of[lives_.ValueOf(placed.first_range + i)];
        if (value >= 0)
          until[i] = UntilOf(placed.first_range + i, uses[static_cast<size_t>(value)]);
      }
      std::vector<uint32_t>& of = plan.until[placed.graph().computation];
      for (uint32_t range : placed.liveness->range_of) of.push_back(until[range]);
    }
    return plan;
  }

 private:
  // --- ranges

  void AddRanges(const ComputationSteps& placed) {
    const bool is_entry = placed.memory->context.returns_to_runtime;
    const BufferGraph& graph = placed.graph();
    for (uint32_t i = 0; i < placed.liveness->ranges.size(); ++i) {
      const LiveRange& range = placed.liveness->ranges[i];
      ValueParts& parts = parts_[placed.first_range + i];
      parts.bytes = range.bytes;
      parts.is_barred = range.is_copy;
      parts.is_carried = lives_.IsCarried(placed.first_range + i);
      parts.life = lives_.LifeOf(placed.first_range + i);
      start_[placed.first_range + i] = placed.begin[range.first];
    }
    const bool is_of_loop = lives_.IsOfLoop(graph.computation);
    // What is given to branches and to computations of several callers stays where it is.
    for (uint32_t buffer : graph.parameter_leaves) {
      ValueParts& parts = parts_[placed.RangeOf(buffer)];
      parts.is_argument = is_entry;
      parts.is_barred = is_entry ? graph.buffers[buffer].part_bytes > 0 : !is_of_loop;
    }
    // Results are in the memory of whoever gets them.
    for (uint32_t buffer : graph.root_leaves) {
      ValueParts& parts = parts_[placed.RangeOf(buffer)];
      if (!parts.is_argument && !is_of_loop) parts.is_barred = true;
    }
    for (uint32_t buffer = 0; buffer < graph.buffers.size(); ++buffer) {
      const Instruction* owner = graph.buffers[buffer].owner;
      if (CallsWithOwnMemory(owner->opcode()) && !lives_.IsLoop(owner))
        parts_[placed.RangeOf(buffer)].is_barred = true;
    }
  }

  // --- accesses

  void AddAccesses(const ComputationSteps& placed) {
    const BufferGraph& graph = placed.graph();
    for (uint32_t step = 0; step < placed.memory->order.size(); ++step) {
      const uint32_t node = placed.memory->order[step];
      const Opcode opcode = graph.nodes[node]->opcode();
      if (graph.allocates[node].empty() || opcode == Opcode::kParameter) continue;
      for (uint32_t buffer : graph.reads[node]) AddUse(placed, buffer, step);
      for (uint32_t buffer : graph.allocates[node]) AddUse(placed, buffer, step);
      if (lives_.IsLoop(graph.nodes[node])) continue;
      if (CallsWithOwnMemory(opcode)) {
        for (uint32_t buffer : graph.reads[node]) parts_[placed.RangeOf(buffer)].is_barred = true;
        continue;
      }
      // Links are slower than memory: a collective is no faster with its values in fast memory.
      // Of a call of foreign code it is not known what it would win.
      if (IsCollective(opcode) || opcode == Opcode::kCustomCall) continue;
      const bool is_update = MotionOf(opcode) == Motion::kUpdates;
      for (uint32_t buffer : graph.reads[node]) {
        if (!is_update || !IsMadeIn(placed, node, buffer)) AddAccess(placed, buffer);
      }
      // What is filled with a constant is filled where it lies, or not at all.
      if (opcode == Opcode::kBroadcast) continue;
      for (uint32_t buffer : graph.allocates[node]) AddAccess(placed, buffer);
    }
    const auto end = static_cast<uint32_t>(placed.memory->order.size());
    for (uint32_t buffer : graph.root_leaves) AddUse(placed, buffer, end);
  }

  void AddUse(const ComputationSteps& placed, uint32_t buffer, uint32_t step) {
    const uint32_t range = placed.RangeOf(buffer);
    std::vector<ValueUse>& uses = parts_[range].uses;
    const StepSpan steps = {placed.begin[step], placed.end[step]};
    // A donated argument's result is given back where the argument lies.
    if (parts_[range].is_argument && !placed.graph().IsParameter(buffer)) return;
    if (lives_.ValueOf(range) != range || (!uses.empty() && uses.back().step == step)) return;
    if (uses.empty()) uses.reserve(4);
    uses.push_back({steps, step});
  }

  // Has a result of the node this buffer's memory?
  static bool IsMadeIn(const ComputationSteps& placed, uint32_t node, uint32_t buffer) {
    return std::ranges::any_of(placed.graph().allocates[node], [&](uint32_t made) {
      return placed.RangeOf(made) == placed.RangeOf(buffer);
    });
  }

  void AddAccess(const ComputationSteps& placed, uint32_t buffer) {
    const Buffer& accessed = placed.graph().buffers[buffer];
    ValueParts& parts = parts_[placed.RangeOf(buffer)];
    int64_t bytes = accessed.bytes;
    if (accessed.part_bytes > 0) bytes = std::min(bytes, accessed.part_bytes);
    if (parts.is_argument && !placed.graph().IsParameter(buffer)) return;
    const int64_t runs = RunsOf(placed);
    parts.accesses += runs;
    parts.moved_bytes += bytes * runs;
  }

  static int64_t RunsOf(const ComputationSteps& placed) {
    int64_t runs = 1;
    for (int i = 0; i < placed.loops; ++i) runs = std::min(kMaxRuns, runs * kTripsOfLoop);
    return runs;
  }

  // --- values

  // All ranges of a value at the outermost.
  void JoinParts() {
    for (uint32_t range = 0; range < lives_.ranges(); ++range) {
      const uint32_t root = lives_.ValueOf(range);
      if (root == range) continue;
      ValueParts &all = parts_[root], &part = parts_[range];
      all.life.insert(all.life.end(), part.life.begin(), part.life.end());
      all.bytes = std::max(all.bytes, part.bytes);
      all.moved_bytes += part.moved_bytes;
      all.accesses += part.accesses;
      all.is_argument = all.is_argument || part.is_argument;
      all.is_carried = all.is_carried || part.is_carried;
      all.is_barred = all.is_barred || part.is_barred;
    }
  }

  // Those that may be placed, in the order in which they come to be.
  std::vector<uint32_t> ByStart() {
    std::vector<uint32_t> order;
    for (uint32_t range = 0; range < lives_.ranges(); ++range) {
      ValueParts& parts = parts_[range];
      if (lives_.ValueOf(range) != range || parts.is_barred || parts.bytes <= 0 ||
          parts.accesses == 0)
        continue;
      if (parts.is_carried) parts.is_barred = parts.is_argument || parts.life.empty();
      if (parts.is_barred || (!parts.is_carried && parts.uses.empty())) continue;
      std::ranges::sort(parts.life, {}, &StepSpan::first);
      order.push_back(range);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return StartOf(a) < StartOf(b); });
    return order;
  }
  uint32_t StartOf(uint32_t range) const {
    const ValueParts& parts = parts_[range];
    return parts.is_carried ? parts.life[0].first : parts.uses[0].steps.first;
  }

  static FastMemoryValue ValueOf(const ValueParts& parts) {
    FastMemoryValue value{{}, parts.bytes, parts.moved_bytes, parts.is_argument, parts.is_carried};
    if (parts.is_carried) {
      for (const StepSpan& steps : parts.life) {
        const bool touches = !value.uses.empty() && steps.first <= value.uses.back().last + 1;
        if (!touches) {
          value.uses.push_back(steps);
        } else {
          value.uses.back().last = std::max(value.uses.back().last, steps.last);
        }
      }
    } else {
      value.uses.reserve(parts.uses.size());
      for (const ValueUse& use : parts.uses) value.uses.push_back(use.steps);
    }
    return value;
  }

  // Until which step of its computation a range is in fast memory, its value being so in its uses.
  uint32_t UntilOf(uint32_t range, const std::vector<FastUse>& uses) {
    const uint32_t root = lives_.ValueOf(range);
    const ValueParts& parts = parts_[root];
    if (parts.is_carried) return uses[0] == FastUse::kElsewhere ? 0 : kAlwaysFast;
    if (range != root) {
      // What a loop only reads is there for all the loop or not at all.
      for (size_t i = 0; i < uses.size(); ++i) {
        const StepSpan steps = parts.uses[i].steps;
        if (steps.first <= start_[range] && start_[range] <= steps.last)
          return uses[i] == FastUse::kElsewhere ? 0 : kAlwaysFast;
      }
      return 0;
    }
    if (parts.is_argument) return 0;
    uint32_t until = 0;
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] != FastUse::kStays) return until;
      until = parts.uses[i].step;
    }
    return kAlwaysFast;
  }

  const FastMemoryInput& input_;
  ValueLives lives_;
  std::vector<ValueParts> parts_;  // by range; of a value at its root, after JoinParts
  std::vector<uint32_t> start_;    // by range: its first step
};

}  // namespace

FastMemoryPlan PlanFastMemory(const Computation& root, const FastMemoryInput& input) {
  return FastValues(root, input).Plan();
}

}  // namespace gshard
