#include "core/pipeline/work.h"

#include <algorithm>

#include "core/pipeline/plan/shift_schedule.h"

namespace gshard::pipeline {

int64_t EndOfStage(const PipelinePlan& plan, size_t v) {
  return v + 1 < plan.first_layers.size() ? plan.first_layers[v + 1]
                                          : static_cast<int64_t>(plan.layers.size());
}

double ForwardsAgain(const PipelinePlan& plan, size_t v, int64_t layer) {
  const bool is_read =
      std::any_of(plan.layers.begin() + layer, plan.layers.begin() + EndOfStage(plan, v),
                  [](const Layer& each) { return each.has_backward; });
  if (!is_read && v + 1 < plan.first_layers.size()) return 0;
  const double again = ForwardsInBackward(*plan.options.remat, layer + 1 == EndOfStage(plan, v));
  const bool outside = plan.options.schedule == ScheduleKind::kShift &&
                       (v == 0 || v + 1 == plan.first_layers.size());
  return outside ? std::max(again, 1.0) : again;
}

WorkSummary SummarizeWork(const PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  const bool shifts = schedule.kind == ScheduleKind::kShift;
  const ShiftClock clock{schedule.stages, schedule.repeats, schedule.microbatches};
  const size_t count = plan.first_layers.size();
  const double microbatches = static_cast<double>(schedule.microbatches);
  WorkSummary work;
  double recompute_s = 0, total_s = 0;
  std::vector<double> busy_s(static_cast<size_t>(schedule.stages), 0);
  for (size_t v = 0; v < count; ++v) {
    const bool outside = shifts && (v == 0 || v + 1 == count);
    // The forward pass that is part of the last stage's backward pass is no repetition.
    const bool folded = schedule.has_backward && v + 1 == count && !schedule.has_forward_of_last;
    double flops = 0;
    for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
      const double again = schedule.has_backward ? ForwardsAgain(plan, v, i) : 0;
      const double forwards = folded ? std::max(again, 1.0) : 1 + again;
      const Layer& layer = plan.layers[static_cast<size_t>(i)];
      flops += forwards * layer.forward_flops + layer.backward_flops;
      const double seconds = layer.AgainSeconds(folded ? forwards : again);
      recompute_s += (folded ? seconds - layer.forward_s : seconds) * microbatches;
    }
    double seconds = plan.times.recompute[v] + plan.times.backward[v] + plan.times.weights[v];
    if (!folded) seconds += plan.times.forward[v];
    total_s += seconds * microbatches;
    if (!outside) {
      const size_t device = (v - (shifts ? 1 : 0)) % static_cast<size_t>(schedule.stages);
      busy_s[device] += seconds * microbatches;
    }
    work.useful_flops += flops * microbatches;
    double executions = microbatches;
    if (shifts) {
      // Of chunk r of R each tick runs one.
      executions = outside
                       ? static_cast<double>(clock.groups() * clock.stages)
                       : static_cast<double>(clock.ticks()) / static_cast<double>(clock.repeats);
    }
    work.executed_flops += flops * executions;
  }
  if (total_s > 0) work.recompute_fraction = recompute_s / total_s;
  double sum = 0;
  for (double s : busy_s) sum += s;
  if (sum > 0) {
    work.imbalance =
        *std::max_element(busy_s.begin(), busy_s.end()) * static_cast<double>(busy_s.size()) / sum;
  }
  return work;
}

}  // namespace gshard::pipeline
