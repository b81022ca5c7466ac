// Loops whose trips and devices take different branches: the clock ticks of a pipeline.
//
// Which branch a device takes in a trip follows from the text (core/analysis/loop_scalars.h). A
// trip has a tick for each conditional with these branches. Devices that exchange values in the
// permutes after it wait for each other there, other collectives make all wait; so does the loop's
// end.
#ifndef GSHARD_CORE_COST_BRANCHED_LOOP_H_
#define GSHARD_CORE_COST_BRANCHED_LOOP_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/analysis/loop_scalars.h"
#include "ir/instruction.h"

namespace gshard {

struct ComputationCost;

// What a conditional's branches do in some trips.
struct BranchMix {
  size_t slowest = 0;          // of the branches that are taken
  double seconds = 0;          // a trip, mean over devices: the branch and waiting for others
  std::vector<double> shares;  // by branch: executions a trip, mean over devices; idle branches: 0
};
using BranchMixes = std::map<const Instruction*, BranchMix>;

// Trips that wait for the same branches.
struct TripMix {
  double trips = 0;
  BranchMixes branches;  // of the body's conditionals
};

// A conditional of the body, in its order.
struct BranchedTick {
  const Instruction* conditional = nullptr;
  size_t branch = 0, number = 0;  // scalars of BranchedLoop::values
  bool all_wait = false;
  std::vector<std::pair<size_t, size_t>> pairs;  // groups of devices that wait for each other
};

// Of one tick, by group: a branch begins; it ends, and devices that need not wait go on; others do.
struct TickTimes {
  std::vector<double> start, end, next;
};

struct BranchedLoop {
  const Instruction* loop = nullptr;
  std::vector<BranchedTick> ticks;  // of a trip; conditionals with the same branches
  LoopScalars values;
  bool has_number = false;  // branches take a tuple that begins with an integer: what they work on
  std::vector<const ComputationCost*> branches;
  std::vector<bool> is_idle;                   // by branch: no arithmetic, where others have some
  std::vector<TickTimes> times;                // of all ticks of all trips
  std::vector<const ComputationCost*> bodies;  // one for each mix, by its first trip

  int64_t tick_count() const { return values.trips * static_cast<int64_t>(ticks.size()); }
  const BranchedTick& TickAt(int64_t tick) const {
    return ticks[static_cast<size_t>(tick) % ticks.size()];
  }
  int64_t TripOf(int64_t tick) const { return tick / static_cast<int64_t>(ticks.size()); }
  size_t BranchAt(int64_t tick, size_t group) const;
  int64_t NumberAt(int64_t tick, size_t group) const {
    return values.At(TickAt(tick).number, TripOf(tick), group);
  }
  double SecondsAt(int64_t tick, size_t group) const;
};

// Fills in what is known of `branched.loop`, bodies apart, and tells the kinds of its trips; none
// where it is not known which branches they take. Of several conditionals with different branches
// `branched` is of those with the longest.
using CostOfBranch = std::function<const ComputationCost*(const Computation&)>;
std::vector<TripMix> MixesOf(BranchedLoop& branched, int64_t device_count,
                             const CostOfBranch& cost_of);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_BRANCHED_LOOP_H_
