#include "core/pipeline/emitted_cost.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"
#include "core/report/pipeline_place.h"

namespace gshard::pipeline {
namespace {

// Times of the passes that the conditional's branches are: partitioning keeps their names.
PassTimes TimesOfPasses(const Module& emitted, const PipelineReport& report, int64_t stages) {
  const std::vector<double> zeros(static_cast<size_t>(stages), 0);
  PassTimes times{zeros, zeros, zeros, zeros};
  std::unordered_map<std::string_view, double> of_name;
  for (const PipelinePass& pass : report.passes) {
    if (pass.computation != nullptr) of_name[pass.computation->name()] = pass.time_s;
  }
  for (const Computation* computation : emitted.computations()) {
    const auto time = of_name.find(computation->name());
    if (time == of_name.end()) continue;
    const auto pass = PassOf(*computation);
    if (!pass) continue;
    std::vector<double>* of = pass->pass == "forward"            ? &times.forward
                              : pass->pass == "backward"         ? &times.backward
                              : pass->pass == "weight_gradients" ? &times.weights
                              : pass->pass == "recompute"        ? &times.recompute
                                                                 : nullptr;
    if (of == nullptr) continue;
    for (int64_t v : pass->stages) {
      if (v < stages) (*of)[static_cast<size_t>(v)] = time->second;
    }
  }
  return times;
}

}  // namespace

Expected<EmittedCost> CostOfEmitted(const Module& emitted, int64_t stages, const Chip& chip) {
  Expected<DeviceProgram> device = MakeDeviceProgram(emitted.Clone(), {});
  if (!device) return Fail(std::move(device.error()));
  const Expected<CostReport> report = ReportCost(*device, chip, {});
  if (!report) return Fail(report.error());
  EmittedCost cost;
  cost.step_time_s = report->step_time_s;
  cost.peak_bytes = report->memory.peak_bytes;
  cost.stages.assign(static_cast<size_t>(stages), {report->step_time_s, cost.peak_bytes});
  if (!report->pipeline) return cost;
  cost.bubble_share = report->pipeline->bubble_share;
  cost.transfer_s = report->pipeline->transfer_s;
  cost.passes = TimesOfPasses(emitted, *report->pipeline,
                              stages * std::max<int64_t>(1, report->pipeline->repeats));
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
