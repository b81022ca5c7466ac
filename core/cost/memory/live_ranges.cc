// Live ranges. See live_ranges.h.

#include "core/cost/memory/live_ranges.h"

#include <algorithm>

namespace gshard {
namespace {

constexpr uint32_t kNoRange = UINT32_MAX;

class LivenessWalk {
 public:
  LivenessWalk(const BufferGraph& graph, std::span<const uint32_t> order,
               const CallContext& context)
      : graph_(graph),
        order_(order),
        context_(context),
        end_(static_cast<uint32_t>(order.size())) {}

  Liveness Run() {
    FindLastUses();
    FindHomes();
    result_.range_of.assign(graph_.buffers.size(), 0);
    result_.ranges.reserve(graph_.buffers.size());
    holder_.reserve(graph_.buffers.size());
    result_.inner.assign(order_.size() + 1, 0);
    AddParameters();
    for (uint32_t step = 0; step < end_; ++step) Allocate(step);
    context_.copies_are_explicit ? PlaceResults() : AddFinalCopies();
    BeginWhereCopied();
    FindPeak();
    return std::move(result_);
  }

 private:
  void FindLastUses() {
    last_use_.assign(graph_.buffers.size(), 0);
    defined_.assign(graph_.buffers.size(), 0);
    for (uint32_t step = 0; step < end_; ++step) {
      for (uint32_t buffer : graph_.allocates[order_[step]])
        last_use_[buffer] = defined_[buffer] = step;
      for (uint32_t buffer : graph_.reads[order_[step]]) last_use_[buffer] = step;
    }
    is_result_.assign(graph_.buffers.size(), false);
    for (uint32_t buffer : graph_.root_leaves) {
      last_use_[buffer] = end_;
      is_result_[buffer] = true;
    }
  }

  // Where a result has to end: the parameter's buffer.
  void FindHomes() {
    home_.assign(graph_.buffers.size(), kNoRange);
    callers_memory_.assign(context_.home.empty() ? 0 : graph_.buffers.size(), kNoHome);
    for (size_t i = context_.home.size(); i-- > 0;) {
      const uint32_t value = graph_.root_leaves[i];
      callers_memory_[value] = context_.home[i];
      if (context_.home[i] >= 0)
        home_[value] = graph_.parameter_leaves[static_cast<size_t>(context_.home[i])];
    }
    size_t placed = std::min(context_.root_place.size(), graph_.root_leaves.size());
    for (size_t i = 0; i < placed; ++i) {
      int32_t place = context_.root_place[i];
      if (place >= 0)
        home_[graph_.root_leaves[i]] = graph_.parameter_leaves[static_cast<size_t>(place)];
    }
  }

  void AddRange(uint32_t buffer, uint32_t first, uint32_t last, bool is_copy = false) {
    if (!is_copy) result_.range_of[buffer] = static_cast<uint32_t>(result_.ranges.size());
    holder_.push_back(buffer);
    result_.ranges.push_back({buffer, BytesOf(buffer), first, last, is_copy});
  }

  uint32_t FastUntil(uint32_t buffer) const {
    return context_.in_fast_memory.empty() ? 0 : context_.in_fast_memory[buffer];
  }
  bool IsInFastMemory(uint32_t buffer) const { return FastUntil(buffer) == kAlwaysFast; }
  int64_t BytesOf(uint32_t buffer) const {
    return IsInFastMemory(buffer) ? 0 : graph_.buffers[buffer].bytes;
  }

  // Parameters exist from the start on, wherever the order puts them.
  void AddParameters() {
    overwritable_.assign(graph_.buffers.size(), true);
    for (size_t i = 0; i < graph_.parameter_leaves.size(); ++i) {
      uint32_t buffer = graph_.parameter_leaves[i];
      Ownership ownership = context_.parameters[i];
      bool owned = ownership == Ownership::kOwned;
      const bool waits = context_.returns_to_runtime && context_.donations_wait;
      AddRange(buffer, 0, owned && !waits ? last_use_[buffer] : end_);
      overwritable_[buffer] = ownership != Ownership::kPinned;
    }
  }

  void Allocate(uint32_t step) {
    uint32_t node = order_[step];
    const Instruction* x = graph_.nodes[node];
    int64_t fresh = 0;
    for (uint32_t buffer : graph_.allocates[node]) {
      if (graph_.IsParameter(buffer)) continue;
      if (IsHomeFree(buffer, step)) {
        AddRange(buffer, step, last_use_[buffer]);
        result_.ranges.back().bytes = 0;
      } else if (!TakeOver(buffer, step)) {
        AddRange(buffer, step, last_use_[buffer]);
        fresh += BytesOf(buffer);
      }
      if (IsReserved(buffer)) result_.ranges[result_.range_of[buffer]].first = 0;
      if (x->opcode() == Opcode::kConstant) overwritable_[buffer] = false;
    }
    int64_t extra = context_.callees_extra[node];
    // A callee's results are among what it allocates; a loop's carries are given to it.
    if (x->opcode() != Opcode::kWhile) extra = std::max<int64_t>(0, extra - fresh);
    result_.inner[step] = extra;
  }

  // May the caller's memory that waits for this result be written, since nothing reads it any more?
  bool IsHomeFree(uint32_t buffer, uint32_t step) const {
    if (callers_memory_.empty() || callers_memory_[buffer] == kNoHome) return false;
    if (callers_memory_[buffer] == kHomeElsewhere) return true;
    const uint32_t home = home_[buffer];
    return last_use_[home] < step && holder_[result_.range_of[home]] == home;
  }

  // Does a loop or an update in place make it? A chain of these ends as the result.
  bool IsUpdate(uint32_t buffer) const {
    const Opcode opcode = graph_.buffers[buffer].owner->opcode();
    return opcode == Opcode::kWhile || MotionOf(opcode) == Motion::kUpdates ||
           opcode == Opcode::kScatter;
  }

  // A result whose memory the runtime allocates before the program starts. Of calls and branches
  // the memory is counted where they make it.
  bool IsReserved(uint32_t buffer) const {
    const Opcode opcode = graph_.buffers[buffer].owner->opcode();
    return context_.returns_to_runtime && context_.donations_wait && last_use_[buffer] == end_ &&
           is_result_[buffer] && home_[buffer] == kNoRange &&
           !IsArgument(result_.range_of[buffer]) &&
           (!CallsWithOwnMemory(opcode) || opcode == Opcode::kWhile);
  }

  bool TakeOver(uint32_t buffer, uint32_t step) {
    uint32_t chosen = kNoRange;
    const bool is_result =
        context_.donations_wait && context_.returns_to_runtime && is_result_[buffer];
    if (context_.collectives_apart && IsCollective(graph_.buffers[buffer].owner->opcode())) {
      return false;
    }
    for (uint32_t candidate : graph_.overwrites[buffer]) {
      uint32_t range = result_.range_of[candidate];
      // The candidate holds the memory still, and nobody reads it later.
      bool dies = last_use_[candidate] == step && holder_[range] == candidate;
      if (!dies || !overwritable_[candidate]) continue;
      if (FastUntil(candidate) != FastUntil(buffer)) continue;
      // XLA gives what a loop reads no memory of a donated argument.
      if (graph_.buffers[buffer].is_loop_invariant && context_.returns_to_runtime &&
          IsArgument(range)) {
        continue;
      }
      bool is_home = result_.ranges[range].buffer == home_[buffer];
      // What is given back is in memory of its own, unless loops and updates made it in place.
      const bool is_kept_apart = context_.donations_wait && (IsArgument(range) || is_result);
      const bool may_be_elsewhere = context_.collectives_apart && is_result_[buffer];
      if (!is_home && (is_kept_apart || may_be_elsewhere) && !IsUpdate(buffer)) continue;
      if (chosen == kNoRange || is_home) chosen = range;
      if (is_home) break;
    }
    if (chosen == kNoRange) return false;
    LiveRange& range = result_.ranges[chosen];
    result_.range_of[buffer] = chosen;
    holder_[chosen] = buffer;
    range.last = std::max(range.last, last_use_[buffer]);
    return true;
  }

  // In a compiled text a result is where its compiler put it: in the argument donated for it.
  void PlaceResults() {
    if (!context_.returns_to_runtime || !context_.donations_wait) return;
    for (size_t i = 0; i < context_.root_place.size(); ++i) {
      const uint32_t range = result_.range_of[graph_.root_leaves[i]];
      if (context_.root_place[i] >= 0 && !IsArgument(range)) result_.ranges[range].bytes = 0;
    }
  }

  // Results that cannot stay where they were computed.
  void AddFinalCopies() {
    std::vector<bool> taken(result_.ranges.size(), false);
    for (size_t i = 0; i < graph_.root_leaves.size(); ++i) {
      uint32_t value = graph_.root_leaves[i];
      uint32_t range = result_.range_of[value];
      int32_t place = i < context_.root_place.size() ? context_.root_place[i] : -1;
      if (place >= 0) {
        uint32_t home = graph_.parameter_leaves[static_cast<size_t>(place)];
        uint32_t home_range = result_.range_of[home];
        if (IsInFastMemory(value) && !IsInFastMemory(home)) {
          AddRange(home, end_, end_, /*is_copy=*/true);
        } else if (home_range == range && !taken[range]) {
          taken[range] = true;  // updated in place
        } else if (HomeWaits(home, home_range) && !taken[range] && !IsArgument(range)) {
          taken[range] = true;  // computed there, or copied to where nothing else is
          if (last_use_[home] < result_.ranges[range].first) result_.ranges[range].bytes = 0;
        } else if (result_.ranges[home_range].last < defined_[value] && !taken[range]) {
          taken[range] = true;  // the home was free by then: it is computed there
        } else {
          AddRange(home, end_, end_, /*is_copy=*/true);
        }
        continue;
      }
      if (!context_.returns_to_runtime) continue;
      bool is_own = overwritable_[value] && !IsArgument(range) && !taken[range];
      if (is_own) {
        taken[range] = true;
      } else {
        AddRange(value, context_.donations_wait ? 0 : end_, end_, /*is_copy=*/true);
      }
    }
  }

  // What is in fast memory at first takes nothing here until it is copied.
  void BeginWhereCopied() {
    for (LiveRange& range : result_.ranges) {
      const uint32_t until = range.is_copy ? 0 : FastUntil(range.buffer);
      if (until != kAlwaysFast) range.first = std::max(range.first, std::min(until, range.last));
    }
  }

  // Is the home of a result an argument's memory that nothing else was given?
  bool HomeWaits(uint32_t home, uint32_t home_range) const {
    return context_.returns_to_runtime && context_.donations_wait && holder_[home_range] == home;
  }

  bool IsArgument(uint32_t range) const { return graph_.IsParameter(result_.ranges[range].buffer); }

  // Is nothing made then that takes memory?
  bool IsIdle(uint32_t step) const {
    if (graph_.nodes[order_[step]]->opcode() == Opcode::kParameter) return true;
    const auto made = graph_.allocates[order_[step]];
    return std::ranges::all_of(made, [&](uint32_t buffer) { return BytesOf(buffer) == 0; });
  }

  void FindPeak() {
    std::vector<int64_t> change(order_.size() + 2, 0);
    for (const LiveRange& range : result_.ranges) {
      change[range.first] += range.bytes;
      change[range.last + 1] -= range.bytes;
    }
    int64_t live = 0;
    result_.peak_bytes = -1;
    for (uint32_t step = 0; step <= end_; ++step) {
      live += change[step];
      const int64_t bytes = live + result_.inner[step];
      const bool is_first_work =
          bytes == result_.peak_bytes && step < end_ && IsIdle(result_.peak_step) && !IsIdle(step);
      if (bytes <= result_.peak_bytes && !is_first_work) continue;
      result_.peak_bytes = bytes;
      result_.peak_step = step;
    }
  }

  const BufferGraph& graph_;
  std::span<const uint32_t> order_;
  const CallContext& context_;
  uint32_t end_;
  Liveness result_;
  std::vector<uint32_t> last_use_, defined_;  // by buffer
  std::vector<bool> is_result_, overwritable_;
  std::vector<uint32_t> home_;           // by buffer: the parameter's it has to end in, or kNoRange
  std::vector<int32_t> callers_memory_;  // by buffer: CallContext::home; empty without any
  std::vector<uint32_t> holder_;         // by range: the buffer whose value it has at present
};

}  // namespace

Liveness ComputeLiveness(const BufferGraph& graph, std::span<const uint32_t> order,
                         const CallContext& context) {
  return LivenessWalk(graph, order, context).Run();
}

}  // namespace gshard
