#include "core/pipeline/emitted_cost.h"

#include <algorithm>
#include <memory>

#include "core/cost/cost_report.h"
#include "core/spmd/per_device_module.h"

namespace gshard::pipeline {

Expected<EmittedCost> CostOfEmitted(const Module& emitted, int64_t stages, const Chip& chip) {
  std::unique_ptr<Module> device = emitted.Clone();
  PassContext context;
  if (auto done = MakePerDeviceModule(*device, context); !done) return Fail(std::move(done.error()));
  const Expected<CostReport> report = EstimateCost(*device, chip);
  if (!report) return Fail(report.error());
  EmittedCost cost;
  cost.step_time_s = report->step_time_s;
  cost.peak_bytes = report->memory.peak_bytes;
  cost.stages.assign(static_cast<size_t>(stages), {report->step_time_s, cost.peak_bytes});
  if (!report->pipeline) return cost;
  cost.bubble_share = report->pipeline->bubble_share;
  const int64_t devices_per_stage = std::max<int64_t>(1, report->devices / stages);
  for (const PipelineStage& stage : report->pipeline->stages) {
    for (int64_t d : stage.devices) {
      const int64_t at = std::min(d / devices_per_stage, stages - 1);
      cost.stages[static_cast<size_t>(at)] = {stage.busy_s, stage.peak_bytes};
    }
  }
  return cost;
}

}  // namespace gshard::pipeline
