// Stage "verify": beyond the outputs, every array that both graphs have by name.
#ifndef GSHARD_BACKENDS_CPU_NAMED_VALUES_H_
#define GSHARD_BACKENDS_CPU_NAMED_VALUES_H_

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/prepared_run.h"
#include "backends/cpu/step_runs.h"
#include "backends/cpu/verify/step_check.h"
#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

// A step of the mesh that was judged as it ran: no other one is needed.
struct JudgedStep {
  StepCheckResult check;
  StepCheckRuns runs;
  StepRuns steps;
};

// Judges every step of the first run of the mesh already. Nothing where that run is to show
// something else (its time alone, a trace, dumps, NaN, what ranks or branches do), where it is not
// known by name what to compare with, where memory is limited, and where a step is wrong: what is
// to be said of it takes other runs. Errors: of planning and running, E-RUN-STOPPED among them.
Expected<std::optional<JudgedStep>> CheckFirstStep(const PreparedRun& prepared,
                                                   const EmulateOptions& options);

// Runs both graphs once more, unless `judged` has done so, and adds to `verify`, which
// VerifyOutputs has made, what it finds: near ties, the wrong step, instructions if the user wants
// them. Nothing to do where the outputs are equal and the user does not, where nothing is known by
// name, and with replicas: what an instruction is may differ between them. Errors: of planning and
// running, E-RUN-STOPPED among them.
Expected<void> VerifyNamedValues(const PreparedRun& prepared, const EmulateOptions& options,
                                 VerifyResult& verify, std::optional<StepCheckResult> judged);
// The same on ranks other than the first: runs what that one wants to look at.
void ReplayNamedValues(const PreparedRun& prepared, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_NAMED_VALUES_H_
