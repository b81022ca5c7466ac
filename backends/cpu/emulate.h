// What gshard-run does, stage by stage: prepare (partition if needed, expand, plan), run, write the
// results, verify, report.
#ifndef GSHARD_BACKENDS_CPU_EMULATE_H_
#define GSHARD_BACKENDS_CPU_EMULATE_H_

#include <memory>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/run_report.h"
#include "ir/module.h"

namespace gshard::cpu {

struct Emulation {
  RunReport report;
  bool interrupted = false;  // the report holds what was measured until then
};

// A program calls SetUpMachine (machine/machine.h) at its start, or products may take several times
// as long. The module is consumed. `reference`: the graph before partitioning, to verify a module
// with that is partitioned already; instructions are compared where both shard alike. Errors: of
// partitioning, planning (E-RUN-MEMORY among them) and running.
Expected<Emulation> Emulate(std::unique_ptr<Module> module, const EmulateOptions& options,
                            std::unique_ptr<Module> reference = nullptr);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EMULATE_H_
