// Values for fast memory. See fast_values.h.

#include "core/cost/memory/fast_values.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_set>

#include "core/cost/memory/fast_memory.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// How often the compiler takes a loop's body to run when it compares values: it says 5 in its
// flags' names (`while_execution_count`).
constexpr int64_t kTripsOfLoop = 5;
constexpr int64_t kMaxRuns = int64_t{1} << 20;  // of a body within bodies

// A computation among the steps of the whole.
struct PlacedComputation {
  const ComputationMemory* memory = nullptr;
  Liveness liveness;                 // results of collectives apart from their operands
  std::vector<uint32_t> begin, end;  // of its steps, and of its end; of a loop with all its body
  uint32_t first_range = 0;          // the numbers of its ranges
  int64_t runs = 1;

  const BufferGraph& graph() const { return memory->graph; }
  uint32_t RangeOf(uint32_t buffer) const { return first_range + liveness.range_of[buffer]; }
};

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
  FastValues(const Computation& root, const FastMemoryInput& input) : input_(input) {
    AddComputation(&root, 1);
    parent_.resize(next_range_);
    std::iota(parent_.begin(), parent_.end(), 0U);
    parts_.resize(next_range_);
    start_.resize(next_range_);
    is_next_.assign(next_range_, false);
    for (PlacedComputation& placed : computations_) AddRanges(placed);
    for (PlacedComputation& placed : computations_) JoinLoops(placed);
    for (PlacedComputation& placed : computations_) AddAccesses(placed);
  }

  FastMemoryPlan Plan() {
    JoinParts();
    const std::vector<uint32_t> order = ByStart();
    std::vector<FastMemoryValue> values;
    values.reserve(order.size());
    for (uint32_t range : order) values.push_back(ValueOf(parts_[range]));
    FastMemory memory(now_, input_.capacity);
    for (const auto& [steps, bytes] : reserved_) memory.Reserve(steps, bytes);
    const std::vector<std::vector<FastUse>> uses = PlaceBestFirst(memory, values);
    std::vector<int32_t> value_of(next_range_, -1);
    for (size_t i = 0; i < order.size(); ++i) value_of[order[i]] = static_cast<int32_t>(i);
    FastMemoryPlan plan;
    plan.peak_bytes = memory.PeakBytes();
    plan.end_address = memory.EndAddress();
    for (const PlacedComputation& placed : computations_) {
      std::vector<uint32_t> until(placed.liveness.ranges.size(), 0);
      for (uint32_t i = 0; i < until.size(); ++i) {
        const int32_t value = value_of[Find(placed.first_range + i)];
        if (value >= 0)
          until[i] = UntilOf(placed.first_range + i, uses[static_cast<size_t>(value)]);
      }
      std::vector<uint32_t>& of = plan.until[placed.graph().computation];
      for (uint32_t range : placed.liveness.range_of) of.push_back(until[range]);
    }
    return plan;
  }

 private:
  // --- steps

  bool IsPlannedHere(const Computation* callee) const { return input_.calls.at(callee) == 1; }

  void AddComputation(const Computation* computation, int64_t runs) {
    PlacedComputation& placed = computations_.emplace_back();
    places_[computation] = &placed;
    placed.memory = &input_.memories.at(computation);
    placed.runs = runs;
    CallContext context = placed.memory->context;
    context.in_fast_memory.clear();
    context.collectives_apart = true;
    placed.liveness = ComputeLiveness(placed.graph(), placed.memory->order, context);
    placed.first_range = next_range_;
    next_range_ += static_cast<uint32_t>(placed.liveness.ranges.size());
    for (uint32_t node : placed.memory->order) {
      placed.begin.push_back(now_);
      AddCallees(placed.graph().nodes[node], runs);
      placed.end.push_back(now_++);
    }
    placed.begin.push_back(now_);
    placed.end.push_back(now_++);
  }

  void AddCallees(const Instruction* x, int64_t runs) {
    if (!CallsWithOwnMemory(x->opcode())) return;
    const bool is_loop = x->opcode() == Opcode::kWhile;
    const int64_t inner = is_loop ? std::min(kMaxRuns, runs * kTripsOfLoop) : runs;
    for (const Computation* callee : x->called()) {
      if (IsPlannedHere(callee)) {
        if (is_loop) of_loops_.insert(callee);
        AddComputation(callee, inner);
        continue;
      }
      auto end_address = input_.end_addresses.find(callee);
      if (end_address == input_.end_addresses.end()) continue;
      reserved_.push_back({{now_, now_}, end_address->second});
    }
  }

  // --- ranges

  void AddRanges(const PlacedComputation& placed) {
    const bool is_entry = placed.memory->context.returns_to_runtime;
    const BufferGraph& graph = placed.graph();
    for (uint32_t i = 0; i < placed.liveness.ranges.size(); ++i) {
      const LiveRange& range = placed.liveness.ranges[i];
      ValueParts& parts = parts_[placed.first_range + i];
      parts.bytes = range.bytes;
      parts.is_barred = range.is_copy;
      parts.life = {{placed.begin[range.first], placed.end[range.last]}};
      start_[placed.first_range + i] = parts.life[0].first;
    }
    const bool is_of_loop = of_loops_.contains(graph.computation);
    // What is given to branches and to computations of several callers stays where it is.
    for (uint32_t buffer : graph.parameter_leaves) {
      ValueParts& parts = parts_[placed.RangeOf(buffer)];
      parts.is_argument = is_entry;
      parts.is_barred = is_entry ? graph.buffers[buffer].part_bytes > 0 : !is_of_loop;
      if (is_entry) parts.life.clear();
    }
    // Results are in the memory of whoever gets them.
    for (uint32_t buffer : graph.root_leaves) {
      ValueParts& parts = parts_[placed.RangeOf(buffer)];
      if (!parts.is_argument && !is_of_loop) parts.is_barred = true;
    }
    for (uint32_t buffer = 0; buffer < graph.buffers.size(); ++buffer) {
      const Instruction* owner = graph.buffers[buffer].owner;
      if (IsControlFlow(owner->opcode()) && !IsPlannedLoop(owner))
        parts_[placed.RangeOf(buffer)].is_barred = true;
    }
  }

  // Are the body and the condition among the steps?
  bool IsPlannedLoop(const Instruction* x) const {
    return x->opcode() == Opcode::kWhile && places_.contains(x->called(0)) &&
           places_.contains(x->called(1));
  }

  // --- loops

  void JoinLoops(const PlacedComputation& placed) {
    for (uint32_t step = 0; step < placed.memory->order.size(); ++step) {
      const uint32_t node = placed.memory->order[step];
      const Instruction* x = placed.graph().nodes[node];
      if (!IsPlannedLoop(x)) continue;
      const PlacedComputation &condition = *places_.at(x->called(0)),
                              &body = *places_.at(x->called(1));
      const StepSpan loop = {placed.begin[step], placed.end[step]};
      std::vector<bool> is_carried(placed.graph().leaves[node].size(), false);
      for (uint32_t buffer : placed.graph().allocates[node])
        is_carried[placed.graph().buffers[buffer].leaf] = true;
      for (uint32_t leaf = 0; leaf < is_carried.size(); ++leaf) {
        const uint32_t outside = placed.RangeOf(placed.graph().leaves[node][leaf]);
        Join(outside, condition, leaf);
        is_carried[leaf] ? JoinCarry(outside, body, leaf, loop) : Join(outside, body, leaf);
      }
    }
  }

  // What a computation gets as this leaf is at the same place within it.
  void Join(uint32_t outside, const PlacedComputation& callee, uint32_t leaf) {
    Join(outside, callee.RangeOf(callee.graph().parameter_leaves[leaf]));
  }

  // The old value until its last use in the body, the new one from where it is made.
  void JoinCarry(uint32_t outside, const PlacedComputation& body, uint32_t leaf, StepSpan loop) {
    const uint32_t next = body.RangeOf(body.graph().root_leaves[leaf]);
    const uint32_t old = body.RangeOf(body.graph().parameter_leaves[leaf]);
    ValueParts& result = parts_[outside];
    result.is_carried = true;
    Join(outside, body, leaf);
    if (next != old) {
      const uint32_t made_in = body.liveness.ranges[next - body.first_range].buffer;
      const bool is_copied = body.graph().IsParameter(made_in) || is_next_[next] ||
                             parts_[next].life[0].first <= parts_[old].life[0].last;
      if (is_copied) return;
      is_next_[next] = true;
    }
    // In the loop it is where the body has it.
    std::vector<StepSpan> left;
    for (const StepSpan& steps : result.life) {
      if (steps.first < loop.first)
        left.push_back({steps.first, std::min(steps.last, loop.first - 1)});
      if (steps.last >= loop.last) left.push_back({std::max(steps.first, loop.last), steps.last});
    }
    result.life = std::move(left);
    Join(outside, next);
  }

  uint32_t Find(uint32_t range) {
    while (parent_[range] != range) range = parent_[range] = parent_[parent_[range]];
    return range;
  }
  void Join(uint32_t a, uint32_t b) { parent_[Find(b)] = Find(a); }

  // --- accesses

  void AddAccesses(const PlacedComputation& placed) {
    const BufferGraph& graph = placed.graph();
    for (uint32_t step = 0; step < placed.memory->order.size(); ++step) {
      const uint32_t node = placed.memory->order[step];
      const Opcode opcode = graph.nodes[node]->opcode();
      if (graph.allocates[node].empty() || opcode == Opcode::kParameter) continue;
      for (uint32_t buffer : graph.reads[node]) AddUse(placed, buffer, step);
      for (uint32_t buffer : graph.allocates[node]) AddUse(placed, buffer, step);
      if (IsPlannedLoop(graph.nodes[node])) continue;
      if (IsControlFlow(opcode)) {
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

  void AddUse(const PlacedComputation& placed, uint32_t buffer, uint32_t step) {
    const uint32_t range = placed.RangeOf(buffer);
    std::vector<ValueUse>& uses = parts_[range].uses;
    const StepSpan steps = {placed.begin[step], placed.end[step]};
    // A donated argument's result is given back where the argument lies.
    if (parts_[range].is_argument && !placed.graph().IsParameter(buffer)) return;
    if (Find(range) != range || (!uses.empty() && uses.back().step == step)) return;
    if (uses.empty()) uses.reserve(4);
    uses.push_back({steps, step});
  }

  // Has a result of the node this buffer's memory?
  static bool IsMadeIn(const PlacedComputation& placed, uint32_t node, uint32_t buffer) {
    return std::ranges::any_of(placed.graph().allocates[node], [&](uint32_t made) {
      return placed.RangeOf(made) == placed.RangeOf(buffer);
    });
  }

  void AddAccess(const PlacedComputation& placed, uint32_t buffer) {
    const Buffer& accessed = placed.graph().buffers[buffer];
    ValueParts& parts = parts_[placed.RangeOf(buffer)];
    int64_t bytes = accessed.bytes;
    if (accessed.part_bytes > 0) bytes = std::min(bytes, accessed.part_bytes);
    if (parts.is_argument && !placed.graph().IsParameter(buffer)) return;
    parts.accesses += placed.runs;
    parts.moved_bytes += bytes * placed.runs;
  }

  // --- values

  // All ranges of a value at the outermost.
  void JoinParts() {
    for (uint32_t range = 0; range < next_range_; ++range) {
      const uint32_t root = Find(range);
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
    for (uint32_t range = 0; range < next_range_; ++range) {
      ValueParts& parts = parts_[range];
      if (Find(range) != range || parts.is_barred || parts.bytes <= 0 || parts.accesses == 0)
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
    const uint32_t root = Find(range);
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
  std::deque<PlacedComputation> computations_;
  std::unordered_map<const Computation*, const PlacedComputation*> places_;
  std::unordered_set<const Computation*> of_loops_;  // their bodies and conditions
  std::vector<std::pair<StepSpan, int64_t>> reserved_;
  uint32_t now_ = 0, next_range_ = 0;
  std::vector<uint32_t> parent_;
  std::vector<ValueParts> parts_;  // by range; of a value at its root, after JoinParts
  std::vector<uint32_t> start_;    // by range: its first step
  std::vector<bool> is_next_;      // by range: a loop's next value, where the old one was
};

}  // namespace

FastMemoryPlan PlanFastMemory(const Computation& root, const FastMemoryInput& input) {
  return FastValues(root, input).Plan();
}

}  // namespace gshard
