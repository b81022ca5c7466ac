// Which rank folds which classes of accumulators that a chain of operations fills, and when
// (fused_accumulators.h).
#ifndef GSHARD_BACKENDS_CPU_PLAN_RANKS_FUSED_ACCUMULATOR_PLAN_H_
#define GSHARD_BACKENDS_CPU_PLAN_RANKS_FUSED_ACCUMULATOR_PLAN_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/plan/plan.h"
#include "backends/cpu/plan/ranks/rank_holders.h"

namespace gshard::cpu {

// Runs of neighbouring classes of a sink's task that one rank folds, and when
// (fused_accumulators.h): what a rank has begun goes on at the next, so tasks are cut into waves
// that follow one another.
struct FusedAccumulatorRun {
  uint32_t task = 0, first = 0, last = 0;  // into ChainStep::order
  int rank = 0, from = -1, to = -1;        // who began it, who goes on
  uint32_t slot = 0;
};
struct FusedAccumulatorPlan {
  std::vector<FusedAccumulatorRun> runs;  // by slot; private ones of this rank among them
  uint32_t slots = 0;
  std::vector<uint8_t> holds;  // [task][rank]: who has the finished accumulator
  int64_t messages = 0, bytes = 0;
};
FusedAccumulatorPlan MakeFusedAccumulatorPlan(const ChainStep& step, RankHolders& holders);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_RANKS_FUSED_ACCUMULATOR_PLAN_H_
