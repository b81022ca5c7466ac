// Rematerialization. See rematerialization.h.

#include "core/remat/rematerialization.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/cost/memory/module_memory.h"
#include "core/remat/recomputation.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// Rounds that may go by without a lower peak: several steps can be equally high.
constexpr int kMaxIdleRounds = 16;
// Each takes from one peak what it needs.
constexpr int kMaxRounds = 200;

struct Candidate {
  uint32_t buffer = 0;
  int64_t bytes = 0;
  double cost_per_gain = 0;
};

// Frees up to `need` bytes at the peak of one computation.
class PeakReducer {
 public:
  PeakReducer(Module& module, const ComputationMemory& memory)
      : memory_(memory), recomputation_(module, memory) {}

  // Bytes that are no longer held at the peak.
  int64_t Run(int64_t need, RematStats& stats) {
    FindStepsOver(memory_.liveness.peak_bytes - need);
    std::vector<Candidate> candidates = FindCandidates();
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost_per_gain != b.cost_per_gain ? a.cost_per_gain < b.cost_per_gain
                                                : a.buffer < b.buffer;
    });
    int64_t freed = 0;
    for (const Candidate& candidate : candidates) {
      if (freed >= need) break;
      if (!recomputation_.Drop(candidate.buffer)) continue;
      freed += candidate.bytes;
      ++stats.values;
      const Instruction* owner = memory_.graph.buffers[candidate.buffer].owner;
      stats.dropped.push_back({std::string(owner->name()), candidate.bytes});
    }
    if (freed == 0) return 0;
    stats.instructions += std::ssize(recomputation_.Apply());
    return freed;
  }

 private:
  // Values held over the peak that nothing reads there.
  std::vector<Candidate> FindCandidates() {
    const BufferGraph& graph = memory_.graph;
    const Liveness& liveness = memory_.liveness;
    std::vector<Candidate> candidates;
    for (uint32_t b = 0; b < graph.buffers.size(); ++b) {
      const LiveRange& range = liveness.ranges[liveness.range_of[b]];
      if (range.bytes < kMinBytes || graph.IsParameter(range.buffer)) continue;
      if (!recomputation_.IsHeldOverPeak(b)) continue;
      std::optional<double> cost = recomputation_.CostOf(b);
      if (!cost) continue;
      // A value that is read again right behind the peak gains little.
      auto [from, to] = recomputation_.IdleSteps(b);
      double gain = static_cast<double>(range.bytes) * (steps_over_[to] - steps_over_[from]);
      candidates.push_back({b, range.bytes, *cost / gain});
    }
    return candidates;
  }

  // How many steps before each one have more than `limit` bytes.
  void FindStepsOver(int64_t limit) {
    const Liveness& liveness = memory_.liveness;
    std::vector<int64_t> change(liveness.inner.size() + 1, 0);
    for (const LiveRange& range : liveness.ranges) {
      change[range.first] += range.bytes;
      change[range.last + 1] -= range.bytes;
    }
    steps_over_.assign(1, 0);
    int64_t live = 0;
    for (size_t step = 0; step < liveness.inner.size(); ++step) {
      live += change[step];
      steps_over_.push_back(steps_over_.back() + (live + liveness.inner[step] > limit ? 1 : 0));
    }
  }

  static constexpr int64_t kMinBytes = 256;
  const ComputationMemory& memory_;
  Recomputation recomputation_;
  std::vector<double> steps_over_;
};

// Computations that run at the peak, the deepest first.
std::vector<const ComputationMemory*> AtPeak(const ModuleMemory& memory) {
  std::vector<const ComputationMemory*> path = {&memory.entry()};
  while (true) {
    const ComputationMemory& at = *path.back();
    uint32_t step = at.liveness.peak_step;
    if (step >= at.order.size() || at.liveness.inner[step] == 0) break;
    path.push_back(&memory.DeepestCallee(at.graph.nodes[at.order[step]]));
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

Rematerialized Rematerialize(const Module& module, const RematOptions& options) {
  Rematerialized best;
  std::unique_ptr<Module> changed = module.Clone();
  RematStats stats;
  int64_t least = INT64_MAX;
  int idle = 0;
  for (int round = 0;; ++round) {
    const ModuleMemory memory(*changed, options.memory);
    stats.peak_after = memory.entry().liveness.peak_bytes;
    if (round == 0) stats.peak_before = stats.peak_after;
    const int64_t need = stats.peak_after - options.limit_bytes;
    const bool is_least = stats.peak_after < least;
    idle = is_least ? 0 : idle + 1;
    least = std::min(least, stats.peak_after);
    const bool is_last = need <= 0 || idle > kMaxIdleRounds || round == kMaxRounds;
    if (is_least) best = {is_last ? std::move(changed) : changed->Clone(), stats};
    if (is_last) break;
    int64_t freed = 0;
    for (const ComputationMemory* computation : AtPeak(memory)) {
      if (freed < need) freed += PeakReducer(*changed, *computation).Run(need - freed, stats);
    }
    if (freed == 0) break;
    RemoveDeadCode(*changed);
  }
  return best;
}

}  // namespace gshard
