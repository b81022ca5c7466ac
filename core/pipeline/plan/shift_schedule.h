// A step with the shifting buffer on its clock (core/analysis/shift_clock.h): how long it takes.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SHIFT_SCHEDULE_H_
#define GSHARD_CORE_PIPELINE_PLAN_SHIFT_SCHEDULE_H_

#include "core/analysis/shift_clock.h"
#include "core/pipeline/plan/schedule.h"

namespace gshard::pipeline {

// Simulates a step with the shifting buffer: the layers before it for all micro-batches, each
// device those whose number is its own modulo K; the forward ticks; the layers after it, forward
// and backward; the backward ticks; the backward pass of the layers before. `times` are by virtual
// stage, the first and last of which are the layers before and after. Padded ticks count as idle
// time.
Simulation SimulateShift(const ShiftClock& clock, const PassTimes& times, bool has_backward);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_SHIFT_SCHEDULE_H_
