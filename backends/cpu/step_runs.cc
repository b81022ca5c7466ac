#include "backends/cpu/step_runs.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace gshard::cpu {

Expected<StepRuns> RunSteps(MeshRun& run, const EmulateOptions& options) {
  using Clock = std::chrono::steady_clock;
  StepRuns steps;
  std::unique_ptr<Trace> trace;
  options.Progress("run", 0);
  const int64_t count = std::max<int64_t>(options.repeat, 1);
  for (int64_t i = 0; i < count; ++i) {
    // One step is enough to look at: the last.
    if (!options.trace.empty() && i + 1 == count) {
      // Ranks' times are since they have all come here.
      if (options.ranks != nullptr) options.ranks->AllGather({}, "the trace");
      trace = std::make_unique<Trace>(run.threads());
    }
    RunOptions step;
    step.check_nan = options.check_nan;
    step.stop = options.stop;
    step.trace = trace.get();
    step.progress = [&](double share) {
      options.Progress("run", (static_cast<double>(i) + share) / static_cast<double>(count));
    };
    const Clock::time_point start = Clock::now();
    const Expected<void> done = run.Run(step);
    steps.stopped = !done && done.error().code == "E-RUN-STOPPED";
    if (done || (steps.stopped && i == 0)) steps.counts = run.executor().counts();
    if (steps.stopped) return steps;
    if (!done) return Fail(done.error());
    steps.times_s.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  steps.trace = std::move(trace);
  return steps;
}

}  // namespace gshard::cpu
