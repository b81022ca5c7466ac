// Loops whose trips and devices take different branches: the clock ticks of a pipeline.
//
// Which branch a device takes in a trip follows from the text (core/analysis/loop_scalars.h). A
// trip has a tick for each conditional of which this is known, whether or not they have the same
// branches: passes that are alike differ where the values that one tick hands on are kept in
// another type than those of the next. Devices that exchange values in the permutes after a
// conditional wait for each other before the next one that needs what they receive; other
// collectives make all wait, and so does the loop's end.
#ifndef GSHARD_CORE_COST_BRANCHED_LOOP_H_
#define GSHARD_CORE_COST_BRANCHED_LOOP_H_

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/analysis/loop_scalars.h"
#include "ir/instruction.h"

namespace gshard {

struct ComputationCost;

// Mix: the branches that devices take in trips which are priced as one. BranchMix is what one
// conditional does in them.
struct BranchMix {
  size_t slowest = 0;  // branch of the conditional that takes longest of those that are taken
  // Seconds per trip, mean over devices: the branch and waiting for others.
  double seconds = 0;
  // Executions of each branch of the conditional per trip, mean over devices; 0 for idle branches.
  std::vector<double> shares;
};
using BranchMixes = std::map<const Instruction*, BranchMix>;

// Trips in which each conditional has the same slowest branch.
struct TripMix {
  double trips = 0;      // number of trips
  BranchMixes branches;  // by conditional of the body
};

// What one device hands on to another after a tick, by index into BranchedLoop::values.groups. Both
// have come to the end of that tick before either begins the tick `ticks_between` + 1 later.
struct TickExchange {
  size_t from = 0, to = 0;
  int64_t ticks_between = 0;
  auto operator<=>(const TickExchange&) const = default;
};

// A conditional of the body, in its order.
struct BranchedTick {
  const Instruction* conditional = nullptr;
  size_t selector = 0;  // scalar of BranchedLoop::values that chooses the branch
  // Scalar of BranchedLoop::values that the branches work on: the integer that begins the tuple
  // that they take.
  std::optional<size_t> number;
  std::vector<size_t> branches;  // of the conditional, in its order: into BranchedLoop::branches
  bool all_wait = false;         // all devices synchronise after this tick
  std::vector<TickExchange> exchanges;  // of what this tick hands on
};

// Times of one tick by group of devices, in seconds since the first tick: when the group's branch
// begins, when it ends, and when the group goes on after waiting for others.
struct TickTimes {
  std::vector<double> start, end, next;
};

struct BranchedLoop {
  const Instruction* loop = nullptr;
  std::vector<BranchedTick> ticks;  // of a trip
  LoopScalars values;
  // Of all ticks. Conditionals whose branches all are the same share them.
  std::vector<const ComputationCost*> branches;
  // By branch: no arithmetic, where others of its conditional have some.
  std::vector<bool> is_idle;
  std::vector<TickTimes> times;                // of all ticks of all trips
  std::vector<const ComputationCost*> bodies;  // one for each mix, by its first trip

  int64_t tick_count() const { return values.trips * static_cast<int64_t>(ticks.size()); }
  const BranchedTick& TickAt(int64_t tick) const {
    return ticks[static_cast<size_t>(tick) % ticks.size()];
  }
  int64_t TripOf(int64_t tick) const { return tick / static_cast<int64_t>(ticks.size()); }
  // Which branch of the tick's conditional is taken, in the conditional's order.
  size_t ChoiceAt(int64_t tick, size_t group) const;
  // The same branch as an index into `branches`.
  size_t BranchAt(int64_t tick, size_t group) const {
    return TickAt(tick).branches[ChoiceAt(tick, group)];
  }
  // Only where the tick has a number.
  int64_t NumberAt(int64_t tick, size_t group) const {
    return values.At(*TickAt(tick).number, TripOf(tick), group);
  }
  double SecondsAt(int64_t tick, size_t group) const;
};

// Fills in all of `branched` but its bodies, for `branched.loop`, and returns the mixes of the
// loop's trips; none if it is not known of any conditional which branches they take.
using CostOfBranch = std::function<const ComputationCost*(const Computation&)>;
std::vector<TripMix> MixesOf(BranchedLoop& branched, int64_t device_count,
                             const CostOfBranch& cost_of);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_BRANCHED_LOOP_H_
