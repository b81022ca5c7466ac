// The decisions of a pipelined step, for people and for programs.
#ifndef GSHARD_CORE_PIPELINE_REPORT_H_
#define GSHARD_CORE_PIPELINE_REPORT_H_

#include <span>
#include <string>

#include "core/pipeline/best_schedule.h"

namespace gshard::pipeline {

// Stages with their layers, FLOPs, weights and time; the bubble; a Gantt of the schedule.
std::string PlanText(const PipelinePlan& plan);
// {"schema":"gshard.pipeline/1",..}: layers with time, FLOPs, weights and stage.
std::string PlanJson(const PipelinePlan& plan, std::span<const TriedSchedule> tried = {});

// One line a device, one column per 1/`columns` of the span: digits are forward passes of the
// micro-batch (last digit), letters backward ones, '+' gradients of weights, '.' idle.
std::string Gantt(const Simulation& simulation, size_t columns = 96);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_REPORT_H_
