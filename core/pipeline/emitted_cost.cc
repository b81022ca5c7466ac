#include "core/pipeline/emitted_cost.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"
#include "core/report/pipeline_place.h"

namespace gshard::pipeline {
namespace {

// The first conditional of `emitted` whose branches are passes of stages, or null.
const Instruction* PassesOf(const Module& emitted) {
  for (const Computation* computation : emitted.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kConditional && PassOf(*x->called(0))) return x;
    }
  }
  return nullptr;
}

// Seconds of each branch of the conditionals, mean over its executions. Ticks of one turn have
// branches of their own where they differ in the types that they hand on.
std::vector<double> TimesOfBranches(const PipelineReport& report, size_t branches) {
  std::vector<double> seconds(branches), executions(branches);
  for (const PipelineTick& tick : report.ticks) {
    for (const size_t i : tick.pass) {
      const PipelinePass& pass = report.passes[i];
      if (pass.choice >= branches) continue;
      seconds[pass.choice] += pass.time_s;
      ++executions[pass.choice];
    }
  }
  for (size_t i = 0; i < branches; ++i) seconds[i] /= std::max(1.0, executions[i]);
  return seconds;
}

// Times of the passes that the conditionals' branches are: partitioning keeps their order.
PassTimes TimesOfPasses(const Module& emitted, const PipelineReport& report, int64_t stages) {
  const std::vector<double> zeros(static_cast<size_t>(stages), 0);
  PassTimes times{zeros, zeros, zeros, zeros};
  const Instruction* passes = report.is_shift ? nullptr : PassesOf(emitted);
  if (passes == nullptr) return times;
  const std::vector<double> seconds = TimesOfBranches(report, passes->called().size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto pass = PassOf(*passes->called(static_cast<int64_t>(i)));
    if (!pass) continue;
    std::vector<double>* of = pass->pass == "forward"            ? &times.forward
                              : pass->pass == "backward"         ? &times.backward
                              : pass->pass == "weight_gradients" ? &times.weights
                              : pass->pass == "recompute"        ? &times.recompute
                                                                 : nullptr;
    if (of == nullptr) continue;
    for (int64_t v : pass->stages) {
      if (v < stages) (*of)[static_cast<size_t>(v)] = seconds[i];
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
  if (cost.step_time_s > 0) cost.recompute_share = report->recompute_s / cost.step_time_s;
  if (!report->pipeline) return cost;
  cost.bubble_share = report->pipeline->bubble_share;
  cost.recompute_share = report->pipeline->recompute_share;
  cost.imbalance = report->pipeline->imbalance;
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
