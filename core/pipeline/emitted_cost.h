// What the cost model says of a pipelined program as it is printed: the same figures as
// gshard-cost's, for the report and for the choice of a schedule.
#ifndef GSHARD_CORE_PIPELINE_EMITTED_COST_H_
#define GSHARD_CORE_PIPELINE_EMITTED_COST_H_

#include <cstdint>
#include <vector>

#include "core/cost/chip.h"
#include "core/pipeline/plan/schedule.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Figures of one device of a stage, in one step.
struct EmittedStage {
  double busy_s = 0;       // in passes
  int64_t peak_bytes = 0;  // of memory
};

struct EmittedCost {
  double step_time_s = 0;
  // As in PipelineReport; without stages recomputation is over the step.
  double bubble_share = 0, recompute_share = 0, imbalance = 1;
  double transfer_s = 0;             // between ticks, beside that span
  int64_t peak_bytes = 0;            // of any device
  std::vector<EmittedStage> stages;  // along the axis of the stages
  // Times of passes as they are printed, with what they store and load; empty: there are none.
  PassTimes passes;
};

// `emitted`: what PipelineModule leaves, which stays as it is; a copy is partitioned. Errors: those
// of partitioning and of EstimateCost.
Expected<EmittedCost> CostOfEmitted(const Module& emitted, int64_t stages, const Chip& chip);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMITTED_COST_H_
