// Stage "verify" beyond the outputs: compares every array that the reference (the unpartitioned
// program) and the partitioned program both have by name.
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

// One execution of the partitioned program (one training step) whose operations were checked while
// it ran, and of which none is wrong. It serves as the measured execution: no other one is needed.
struct JudgedStep {
  StepCheckResult check;  // of its operations
  StepCheckRuns runs;     // of both programs, as the check leaves them
  StepRuns steps;         // its time and counts
};

// Runs one execution of the partitioned program (one training step) together with the reference,
// and checks every array that the program computes against what the reference makes of the same
// operands. Only if the user wants every array compared (EmulateOptions::verify_instructions).
//
// Returns nothing, and a later stage checks instead, with --repeat, --trace, dumps, a check for NaN
// or several ranks, where it is not known by name what to compare with, where the
// user gives the reference, where the program has feeds or conditionals, where memory is limited or
// too small, and where an operation is wrong: to say what is wrong takes other runs. Errors: of
// planning and running, E-RUN-STOPPED among them.
Expected<std::optional<JudgedStep>> CheckFirstStep(const PreparedRun& prepared,
                                                   const EmulateOptions& options);

// Runs both programs once more, unless `judged` holds the result of CheckFirstStep, and adds to
// `verify`, which VerifyOutputs has made, what it finds: near ties, the wrong operation and, if the
// user wants them, the results of all instructions; may change VerifyResult::ok. Does nothing if
// the outputs are equal and the user does not want instructions compared, if nothing is known by
// name, and with replicas, between which an instruction's value may differ. Errors: of planning and
// running, E-RUN-STOPPED among them.
Expected<void> VerifyNamedValues(const PreparedRun& prepared, const EmulateOptions& options,
                                 VerifyResult& verify, std::optional<StepCheckResult> judged);
// Same stage on ranks other than the first: runs what the first rank wants to look at.
void ReplayNamedValues(const PreparedRun& prepared, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_NAMED_VALUES_H_
