// Stage "verify": beyond the outputs, every array that both graphs have by name.
#ifndef GSHARD_BACKENDS_CPU_NAMED_VALUES_H_
#define GSHARD_BACKENDS_CPU_NAMED_VALUES_H_

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/prepared_run.h"
#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

// Runs both graphs once more and adds to `verify`, which VerifyOutputs has made, what it finds:
// near ties, the wrong step, instructions if the user wants them. Nothing to do where the outputs
// are equal and the user does not, where nothing is known by name, and with replicas: what an
// instruction is may differ between them. Errors: of planning and running, E-RUN-STOPPED among
// them.
Expected<void> VerifyNamedValues(const PreparedRun& prepared, const EmulateOptions& options,
                                 VerifyResult& verify);
// The same on ranks other than the first: runs what that one wants to look at.
void FollowNamedValues(const PreparedRun& prepared, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_NAMED_VALUES_H_
