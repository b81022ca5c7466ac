#include "backends/cpu/plan/ranks/owned_classes.h"

#include <algorithm>

namespace gshard::cpu {
namespace {

// What a chain leaves in the arena: the places, and the bytes of one class's instance.
struct StoredResult {
  const BufferRef* ref = nullptr;
  int64_t bytes = 0;
};

std::vector<StoredResult> StoredResults(const Plan& plan, const ChainStep& step) {
  std::vector<StoredResult> stored;
  for (const Call& call : step.calls) {
    for (uint32_t i = 0; i < call.result_count; ++i) {
      const BufferRef& ref = step.refs[call.results + i];
      const int64_t bytes = plan.program->values[call.op->results[i]].bytes;
      if (ref.space == BufferSpace::kArena && bytes > 0) stored.push_back({&ref, bytes});
    }
  }
  return stored;
}

class Divider {
 public:
  Divider(const ChainStep& step, RankHolders& holders)
      : step_(step),
        holders_(holders),
        size_(static_cast<size_t>(holders.cut().size)),
        owner_(step.classes->count(), -1),
        has_(size_, 0),
        runs_(size_, 0),
        sends_(size_, 0),
        takes_(size_, 0) {}

  // Each class goes to the rank that runs fewest so far: first those that nobody else has.
  void Divide(int64_t bytes) {
    std::vector<uint32_t> shared;
    for (uint32_t c = 0; c < owner_.size(); ++c) {
      int last = -1, count = 0;
      for (int r = 0; r < holders_.cut().size; ++r) {
        if (!Holds(c, r)) continue;
        ++has_[static_cast<size_t>(r)];
        last = r;
        ++count;
      }
      if (count > 1) {
        shared.push_back(c);
      } else if (count == 1) {
        Own(c, last);
      }
    }
    any_shared_ = !shared.empty();
    for (uint32_t c : shared) {
      int best = -1;
      for (int r = 0; r < holders_.cut().size; ++r) {
        if (Holds(c, r) &&
            (best < 0 || runs_[static_cast<size_t>(r)] < runs_[static_cast<size_t>(best)])) {
          best = r;
        }
      }
      Own(c, best);
      for (int r = 0; r < holders_.cut().size; ++r) {
        if (r == best || !Holds(c, r)) continue;
        sends_[static_cast<size_t>(best)] += bytes;
        takes_[static_cast<size_t>(r)] += bytes;
      }
    }
  }

  bool Saves(double class_flops, const RankSpeeds& speeds) const {
    if (!any_shared_) return false;
    const auto most = [](const std::vector<int64_t>& of_ranks) {
      return static_cast<double>(*std::ranges::max_element(of_ranks));
    };
    const double class_seconds = class_flops / speeds.flops_per_second;
    const double wire = std::max(most(sends_), most(takes_)) / speeds.wire_bytes_per_second;
    return most(runs_) * class_seconds + wire + speeds.message_seconds < most(has_) * class_seconds;
  }

  int owner(uint32_t c) const { return owner_[c]; }
  bool Holds(uint32_t c, int rank) { return holders_.Holds(step_.classes, c, rank); }

 private:
  void Own(uint32_t c, int rank) {
    owner_[c] = rank;
    ++runs_[static_cast<size_t>(rank)];
  }

  const ChainStep& step_;
  RankHolders& holders_;
  const size_t size_;
  bool any_shared_ = false;
  std::vector<int> owner_;                           // by class
  std::vector<int64_t> has_, runs_, sends_, takes_;  // by rank: classes, classes, bytes, bytes
};

}  // namespace

OwnedClasses MakeOwnedClasses(const Plan& plan, const ChainStep& step, RankHolders& holders) {
  OwnedClasses owned;
  // Sums and what is shown are where their classes are.
  if (step.flops == 0 || !step.fused_accumulators.empty() || !step.probes.empty()) return owned;
  const std::vector<StoredResult> stored = StoredResults(plan, step);
  int64_t bytes = 0;
  for (const StoredResult& result : stored) bytes += result.bytes;
  Divider divider(step, holders);
  divider.Divide(bytes);
  if (!divider.Saves(static_cast<double>(step.flops), plan.speeds)) return owned;
  const int rank = holders.cut().rank;
  owned.runs_here.assign(step.classes->count(), 0);
  std::vector<WireMove> moves;
  for (uint32_t c = 0; c < owned.runs_here.size(); ++c) {
    const int owner = divider.owner(c);
    owned.runs_here[c] = owner == rank ? 1 : 0;
    for (int to = 0; owner >= 0 && to < holders.cut().size; ++to) {
      if (to == owner || !divider.Holds(c, to)) continue;
      for (const StoredResult& result : stored) {
        const bool here = owner == rank || to == rank;
        moves.push_back({owner, to, {here ? result.ref->ArenaOffset(c) : 0, 1, result.bytes, 0}});
      }
    }
  }
  owned.wire = MakeWirePlan(holders.cut(), moves);
  return owned;
}

}  // namespace gshard::cpu
