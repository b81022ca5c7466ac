// Placement in fast memory. See fast_memory.h.

#include "core/cost/memory/fast_memory.h"

#include <algorithm>

#include "ir/op_traits.h"

namespace gshard {
namespace {

// Bytes in use over steps: adding to an interval and the largest of an interval in O(log n).
class UsedBytes {
 public:
  explicit UsedBytes(size_t steps) {
    while (size_ < steps) size_ *= 2;
    most_.assign(2 * size_, 0);
    added_.assign(2 * size_, 0);
  }

  void Add(size_t first, size_t last, int64_t bytes) { Add(1, 0, size_ - 1, first, last, bytes); }
  int64_t Most(size_t first, size_t last) const { return Most(1, 0, size_ - 1, first, last); }

 private:
  void Add(size_t node, size_t low, size_t high, size_t first, size_t last, int64_t bytes) {
    if (first > high || last < low) return;
    if (first <= low && high <= last) {
      most_[node] += bytes;
      added_[node] += bytes;
      return;
    }
    const size_t middle = (low + high) / 2;
    Add(2 * node, low, middle, first, last, bytes);
    Add(2 * node + 1, middle + 1, high, first, last, bytes);
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }

  int64_t Most(size_t node, size_t low, size_t high, size_t first, size_t last) const {
    if (first > high || last < low) return 0;
    if (first <= low && high <= last) return most_[node];
    const size_t middle = (low + high) / 2;
    return added_[node] + std::max(Most(2 * node, low, middle, first, last),
                                   Most(2 * node + 1, middle + 1, high, first, last));
  }

  size_t size_ = 1;
  std::vector<int64_t> most_, added_;  // a node's: of its steps, without what its parents add
};

// What may be kept: a temporary for its life, or an argument from its first reader to its last.
struct Candidate {
  uint32_t range = 0;
  bool is_copy = false;  // of an argument
  bool is_barred = false;
  int64_t bytes = 0;
  int64_t accesses = 0;
  uint32_t first = UINT32_MAX, last = 0;
};

class Planner {
 public:
  Planner(const BufferGraph& graph, std::span<const uint32_t> order, const Liveness& liveness,
          const CallContext& context)
      : graph_(graph), order_(order), liveness_(liveness), context_(context) {}

  FastMemoryPlan Run(const FastMemoryLimits& limits) {
    AddRanges(limits.carried);
    for (uint32_t step = 0; step < order_.size(); ++step) AddAccesses(step);
    FastMemoryPlan plan;
    plan.holds.assign(graph_.buffers.size(), false);
    UsedBytes used(order_.size() + 1);
    for (uint32_t step = 0; step < order_.size(); ++step) {
      const int64_t inner = limits.callees[order_[step]];
      if (inner > 0) used.Add(step, step, inner);
    }
    std::vector<bool> is_kept(candidates_.size(), false);
    for (const Candidate& value : BestFirst()) {
      if (used.Most(value.first, value.last) + value.bytes > limits.capacity) continue;
      used.Add(value.first, value.last, value.bytes);
      is_kept[value.range] = !value.is_copy;
    }
    for (size_t b = 0; b < graph_.buffers.size(); ++b) {
      plan.holds[b] = is_kept[liveness_.range_of[b]];
    }
    plan.peak_bytes = used.Most(0, order_.size());
    return plan;
  }

 private:
  void AddRanges(const std::vector<bool>& carried) {
    candidates_.resize(liveness_.ranges.size());
    for (uint32_t i = 0; i < candidates_.size(); ++i) {
      const LiveRange& range = liveness_.ranges[i];
      Candidate& value = candidates_[i];
      value.range = i;
      value.bytes = range.bytes;
      value.is_barred = range.is_copy;
      value.first = range.first;
      value.last = range.last;
    }
    for (uint32_t buffer : graph_.parameter_leaves) {
      Candidate& value = candidates_[liveness_.range_of[buffer]];
      value.is_copy = true;
      value.is_barred = !context_.returns_to_runtime || graph_.buffers[buffer].is_sliced;
      value.first = UINT32_MAX;
      value.last = 0;
    }
    // Results are in the memory of whoever gets them; what a loop carries is copied there.
    const bool is_body = !context_.returns_to_runtime && !context_.root_place.empty();
    for (uint32_t buffer : graph_.root_leaves) {
      Candidate& value = candidates_[liveness_.range_of[buffer]];
      if (!value.is_copy && !is_body) value.is_barred = true;
    }
    for (size_t b = 0; b < graph_.buffers.size(); ++b) {
      const Instruction* owner = graph_.buffers[b].owner;
      if (IsControlFlow(owner->opcode()) && !carried[b])
        candidates_[liveness_.range_of[b]].is_barred = true;
    }
  }

  void AddAccesses(uint32_t step) {
    const uint32_t node = order_[step];
    const Instruction* x = graph_.nodes[node];
    if (graph_.allocates[node].empty()) return;
    if (IsControlFlow(x->opcode())) {
      // What a loop only reads it reads in parts, trip by trip; it needs the room for its own
      // values. What it carries it reads and writes.
      for (uint32_t buffer : graph_.reads[node]) {
        Candidate& value = candidates_[liveness_.range_of[buffer]];
        const bool starts_carry = x->opcode() == Opcode::kWhile && IsTakenOver(buffer, node);
        if (!starts_carry) value.is_barred = true;
      }
      for (uint32_t buffer : graph_.allocates[node]) {
        candidates_[liveness_.range_of[buffer]].accesses += 2;
      }
      return;
    }
    // Links are slower than memory: a collective is no faster with its values in fast memory.
    // Of a call of foreign code it is not known what it would win.
    const bool counts = !IsCollective(x->opcode()) && x->opcode() != Opcode::kParameter &&
                        x->opcode() != Opcode::kCustomCall;
    for (uint32_t buffer : graph_.reads[node]) AddAccess(buffer, step, counts);
    for (uint32_t buffer : graph_.allocates[node]) AddAccess(buffer, step, counts);
  }

  // Has a result of the node the memory of this buffer?
  bool IsTakenOver(uint32_t buffer, uint32_t node) const {
    return std::ranges::any_of(graph_.allocates[node], [&](uint32_t made) {
      return liveness_.range_of[made] == liveness_.range_of[buffer];
    });
  }

  void AddAccess(uint32_t buffer, uint32_t step, bool counts) {
    Candidate& value = candidates_[liveness_.range_of[buffer]];
    if (counts) ++value.accesses;
    if (!value.is_copy) return;
    if (graph_.IsParameter(buffer)) {
      if (!counts) return;
      value.first = std::min(value.first, step);
      value.last = std::max(value.last, step);
    }
  }

  std::vector<Candidate> BestFirst() const {
    std::vector<Candidate> best;
    for (const Candidate& value : candidates_) {
      const int64_t least = value.is_copy ? 2 : 1;
      if (value.is_barred || value.bytes <= 0 || value.accesses < least) continue;
      if (value.first <= value.last) best.push_back(value);
    }
    std::sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
      return a.first != b.first ? a.first < b.first : a.range < b.range;
    });
    std::stable_sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
      return a.accesses * a.bytes > b.accesses * b.bytes;
    });
    return best;
  }

  const BufferGraph& graph_;
  std::span<const uint32_t> order_;
  const Liveness& liveness_;
  const CallContext& context_;
  std::vector<Candidate> candidates_;  // by range
};

}  // namespace

FastMemoryPlan PlanFastMemory(const BufferGraph& graph, std::span<const uint32_t> order,
                              const Liveness& liveness, const CallContext& context,
                              const FastMemoryLimits& limits) {
  return Planner(graph, order, liveness, context).Run(limits);
}

}  // namespace gshard
