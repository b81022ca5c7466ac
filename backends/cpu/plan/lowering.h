// Module -> Program: tuples split into leaves, calls and fusions inlined, async pairs run at their
// start, operations that only rename bytes (reshape, copy, ..) resolved, dead code dropped.
#ifndef GSHARD_BACKENDS_CPU_PLAN_LOWERING_H_
#define GSHARD_BACKENDS_CPU_PLAN_LOWERING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

struct LoweringOptions {
  // Names of instructions whose value must stay readable after a run.
  std::span<const std::string> keep;
  // Arrays that are shown to an observer (probe.h).
  std::span<const ProbePoint> probes;
  IndexObserver* index_observer = nullptr;  // see Program
  // Seeds the filler of elided constants ("{...}"): arrays/fill.h.
  uint64_t seed = 0;
  // Bytes that the fillers may take; 0: what the machine has free.
  int64_t memory_limit = 0;
};

// Errors: E-RUN-* located at the instruction that cannot run. The module must outlive the program.
Expected<std::unique_ptr<Program>> LowerModule(const Module& module, const DeviceGrid& grid,
                                               const LoweringOptions& options);

// Which texts have the values of constants that this one leaves out ("{...}").
std::string ElidedHint();

// Drops operations that neither results nor kept values need, and carried values of loops that
// nobody reads. Values that are known or views of others do not need the operation that made them.
void RemoveDeadOps(Program& program);
// The same later on, when operations whose results are views are gone: what collectives they looked
// at was found needed before.
void RemoveDeadKernels(Program& program);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_LOWERING_H_
