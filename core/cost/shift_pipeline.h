// The shifting buffer (`gshard-opt pipeline --schedule shift`) as a pipeline: its loops have no
// branch, every stage computes at every tick, and at the ends of the schedule on padding.
//
// The header says how many stages, repeats and micro-batches there are, so the clock
// (core/analysis/shift_clock.h) which ticks are padding; the loops, their trips and what a tick
// takes are the program's.
#ifndef GSHARD_CORE_COST_SHIFT_PIPELINE_H_
#define GSHARD_CORE_COST_SHIFT_PIPELINE_H_

#include "core/cost/pipeline_report.h"

namespace gshard {

// Fills in `report`, of which the header's fields are known. False where the program's loops are
// not those that the header speaks of.
bool DescribeShift(const Module& module, const Mesh* mesh, StepModel& model,
                   PipelineReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_SHIFT_PIPELINE_H_
