// Stage "run": the steps.
#ifndef GSHARD_BACKENDS_CPU_STEP_RUNS_H_
#define GSHARD_BACKENDS_CPU_STEP_RUNS_H_

#include <memory>
#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/run/executor.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/run/trace.h"

namespace gshard::cpu {

struct StepRuns {
  std::vector<double> times_s;  // of whole steps
  RunCounts counts;             // of the last step; of a part of the first if there is no whole one
  bool stopped = false;
  std::unique_ptr<Trace> trace;  // of the last step, if wanted; null if stopped
};

// `options.repeat` steps, at least one, of a `run` that was started; the last is traced, if wanted.
// To be stopped is no error, but an end with what there is. Errors: of running.
Expected<StepRuns> RunSteps(MeshRun& run, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_STEP_RUNS_H_
