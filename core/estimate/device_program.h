// From a program to its price, the one way that gshard-cost, sweep, diff, advice, rematerialization
// and automatic sharding go (docs/cost.md):
//
//   whole program ─► MakeDeviceProgram ─► program of one device ─► ReportCost: every table
//                    (core/spmd, optimize)                      └► PriceProgram: figures alone
//
// Which function to call:
//   ReportCost                  every table, for a program to be shown
//   PriceProgram                the figures alone, for a search over programs
//   PricePlan (plan.h)          the figures of one program with a few other shardings
//   EstimateCost, EstimateStep  what the first two call (core/cost/cost_report.h), for a program of
//                               one device that CleanForCost has cleaned already
//
// Single-threaded per context, like passes; many programs may be priced at once if each has a
// context of its own.
#ifndef GSHARD_CORE_ESTIMATE_DEVICE_PROGRAM_H_
#define GSHARD_CORE_ESTIMATE_DEVICE_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/cost/cost_report.h"
#include "core/cost/memory/global_tensors.h"
#include "core/explain/recorder.h"
#include "core/propagation/propagation.h"
#include "ir/module.h"

namespace gshard {

class KeptPartitionTables;
class KnownReshardPlans;
class ReadyModule;

// How the program of one device is made.
struct DeviceProgramOptions {
  int64_t num_partitions = 0;  // 0: as the module says
  std::optional<bool>
      is_partitioned;     // true: it is the program of one device already; unset: IsPartitioned
  bool optimize = false;  // run the passes of `gshard-opt optimize` afterwards
  bool as_xla = false;    // partition as XLA decides (PartitionPolicies::AsXla)
  bool weight_update_sharding = false;
  bool windowed_einsum = false;  // every gather and scatter of a dot, however small
  // If set, the module is a copy of ready->module(), and the passes before propagation are skipped
  // (PerDeviceOptions::ready); may be null.
  const ReadyModule* ready = nullptr;
  PropagationOptions propagation;
  ExplainRecorder* recorder = nullptr;  // learns the causes of collectives; may be null
  // As in PartitionOptions.
  KnownReshardPlans* reshard_plans = nullptr;
  KeptPartitionTables* partition_tables = nullptr;
  bool tells_causes = true;
  bool counts_useful_flops = true;  // false: MFU counts what the program of one device does
  bool records_tensors = false;     // ReportCost then names the tensors behind the peak's tiles
  // Sees the whole program between propagation and partitioning, if there are both; an error of it
  // ends MakeDeviceProgram.
  std::function<Expected<void>(const Module& propagated)> after_propagation;
};

struct DeviceProgram {
  std::unique_ptr<Module> module;
  std::optional<double> useful_flops;   // TotalFlops of the whole program, where there was one
  GlobalTensors tensors;                // if they were to be recorded
  std::vector<Diagnostic> diagnostics;  // warnings and notes
  PropagationMode propagated_as = PropagationMode::kByText;  // kByText: nothing was propagated
};

// Makes the program of one device of a whole program. One that is partitioned already stays as it
// is but for `optimize`; one for a single device has its calls inlined, is canonicalised, and does
// equal computations once, as partitioned ones do, unless it is compiled text. Errors: sizes
// without a bound (E-COST-010), calls that would be written out to over a million instructions,
// those of propagation and partitioning.
Expected<DeviceProgram> MakeDeviceProgram(std::unique_ptr<Module> module,
                                          const DeviceProgramOptions& options);

// Cleans the program up as a compiler does and prices it; the report points into `program`. Errors:
// those of EstimateCost.
Expected<CostReport> ReportCost(DeviceProgram& program, const Chip& chip, CostOptions options);

// Prices the program like ReportCost, but without tables. `program` is used up.
Expected<StepFigures> PriceProgram(DeviceProgram program, const Chip& chip, CostOptions options);

// What a chip's compiler does to a program beside what all compilers do.
struct Cleanup {
  bool rounds_operands = false;    // core/transforms/tpu/rounded_operands.h
  bool multiplies_dots = false;    // core/transforms/expand/multiplied_dots.h
  bool for_tpu = false;            // sunk_broadcasts.h and relaid_carries.h beside the first
  bool dense_ragged_dots = false;  // core/transforms/dense_ragged_dots.h
  bool unrolls_bits = false;       // core/transforms/expand/unrolled_random_bits.h
};
Cleanup CleanupOf(const Chip& chip);

// Cleans `module` up as compilers do before they place buffers: calls are inlined, dead code goes,
// loops carry equal state once, and `cleanup` is done. Compiled text (IsCompiled,
// ir/compiled_text.h) stays as it is, and so do calls that would be written out to more than a
// million instructions. Errors: those of InlineCalls.
Expected<void> CleanForCost(Module& module, const Cleanup& cleanup);

}  // namespace gshard

#endif  // GSHARD_CORE_ESTIMATE_DEVICE_PROGRAM_H_
