// What gshard-run does, stage by stage: prepare (partition if needed, expand, plan), run, write the
// results, verify, report.
//
// With --verify, in this order:
//   1. CheckFirstStep (named_values.h), where possible: operations are checked during the first
//      execution of the partitioned program.
//   2. The reference, which is the unpartitioned program, runs by itself, unless 1 has what it
//      would compute. The partitioned program runs, unless 1 has run it; results are written.
//   3. VerifyOutputs (verify/verify.h): outputs are compared, which sets VerifyResult::ok.
//   4. VerifyNamedValues, if outputs differ or the user asks for it: DecideVerdict
//      (verify/verdict.h). It checks operations unless 1 has.
//   5. VerifyWidened (widened_runs.h), if outputs still differ and no operation is known to be
//      wrong: both programs run in f64.
// 4 and 5 may change VerifyResult::ok. Where random integers index something, 1 to 5 repeat with
// other ones (RunReport::draws).
#ifndef GSHARD_BACKENDS_CPU_EMULATE_H_
#define GSHARD_BACKENDS_CPU_EMULATE_H_

#include <memory>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/run_report.h"
#include "ir/module.h"

namespace gshard::cpu {

struct Emulation {
  RunReport report;
  bool interrupted = false;  // true: the report holds what was measured until then
};

// Runs `module`, which is consumed, through all stages. A program calls SetUpMachine
// (machine/machine.h) at its start, or products may take several times as long. `reference`: the
// unpartitioned program, to verify a module with that is partitioned already; null otherwise.
// Instructions are compared where both shard alike. Errors: of partitioning, planning (E-RUN-MEMORY
// among them) and running.
Expected<Emulation> Emulate(std::unique_ptr<Module> module, const EmulateOptions& options,
                            std::unique_ptr<Module> reference = nullptr);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EMULATE_H_
