// The cheapest of several schedules, by what the cost model says of each printed program.
#ifndef GSHARD_CORE_PIPELINE_BEST_SCHEDULE_H_
#define GSHARD_CORE_PIPELINE_BEST_SCHEDULE_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/pipeline/emitted_cost.h"
#include "core/pipeline/pipeline.h"

namespace gshard::pipeline {

struct TriedSchedule {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t repeats = 1;              // chunks per device
  std::optional<EmittedCost> cost;  // unset: this step cannot be run so
  std::string error;                // reason if `cost` is unset
  bool fits = false;                // its peak is within the memory limit
  bool is_taken = false;
};

struct BestPipeline {
  std::unique_ptr<Module> program;
  PipelinePlan plan;
  std::vector<TriedSchedule> tried;  // in the order of `kinds`
};

// Returns what PipelineModule makes of `module` with one of the schedules `kinds`: the one whose
// program takes least time of those that fit in options.memory_limit_bytes or, if that is 0, in the
// chip's memory; if none fits, the one that needs least memory; of equal ones the first.
// options.schedule is not read. Errors: those of the first kind if none can be run; E-PIPELINE-007
// if none fits in a limit that was given (not 0).
Expected<BestPipeline> PipelineByBest(const Module& module, const PipelineOptions& options,
                                      std::span<const ScheduleKind> kinds);

// As PipelineModule, but with kZeroBubble as 1F1B where that is cheaper, because splitting backward
// passes costs more than it fills, with a note of that among the plan's warnings: what `gshard-opt
// pipeline --schedule NAME` prints.
Expected<BestPipeline> PipelineBySchedule(const Module& module, const PipelineOptions& options);

// Returns a table of all schedules that were tried.
std::string TriedText(std::span<const TriedSchedule> tried);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_BEST_SCHEDULE_H_
