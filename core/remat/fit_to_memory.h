// Makes a program fit the memory of its devices: rematerialization until the peak that gshard-cost
// would report is under a limit.
#ifndef GSHARD_CORE_REMAT_FIT_TO_MEMORY_H_
#define GSHARD_CORE_REMAT_FIT_TO_MEMORY_H_

#include <string>
#include <string_view>

#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"
#include "core/pass.h"
#include "core/remat/remat_record.h"
#include "core/remat/rematerialization.h"

namespace gshard {

struct FitOptions {
  int64_t limit_bytes = 0;        // per device
  MemoryOptions memory;           // MemoryOptionsOf the chip, and of what is priced by
  Cleanup cleanup;                // CleanupOf the chip
  int64_t num_partitions = 0;     // 0: as the module says
  RematRecord* record = nullptr;  // learns which values are computed again or kept; may be null
};

// In place. The program of one device stays one, with calls inlined; a program that is still to be
// partitioned stays whole, every instruction with its sharding, and each array counts as its tile
// on one device while values are chosen. `peak_before` and `peak_after` are those of the program of
// one device. Errors: those of propagation and partitioning.
Expected<RematStats> FitToMemory(Module& module, PassContext& context, const FitOptions& options);

// The shell command that does it to the HLO in `input`, `limit` being what its --limit says,
// `chip_flag` what names the chip, and `cost` the options by which memory is counted.
std::string RematCommand(std::string_view input, std::string_view limit, std::string_view chip_flag,
                         const CostOptions& cost);

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_FIT_TO_MEMORY_H_
