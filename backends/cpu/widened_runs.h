// Stage "widened": where outputs differ and no step is known to be wrong, both graphs run once more
// in double precision.
#ifndef GSHARD_BACKENDS_CPU_WIDENED_RUNS_H_
#define GSHARD_BACKENDS_CPU_WIDENED_RUNS_H_

#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/prepared_run.h"
#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

// After VerifyNamedValues.
bool NeedsWidenedRuns(const VerifyResult& verify);

// Sets verify.widened, and with it the verdict; a tolerance that the user gave is a demand, which
// stays. `expected`: the unpartitioned graph's results. What cannot run in double precision, for
// want of memory say, is no error but told as the reason. Errors: E-RUN-STOPPED.
Expected<void> VerifyWidened(const PreparedRun& prepared, const EmulateOptions& options,
                             const std::vector<OutputArray>& expected, VerifyResult& verify);
// Same stage on ranks other than the first.
void ReplayWidened(const PreparedRun& prepared, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_WIDENED_RUNS_H_
