// From a module as the user wrote it to the program of one device: the one way that the three
// programs, reports and tests go, so that all speak of the same program (docs/architecture.md).
//
//   import-shardy ─► inline-calls ─► [dynamic-padder] ─► before_sharding ─►
//   [weight-update-sharding] ─► canonicalize ─► split-constants ─► propagate ─► merge-constants ─►
//   after_propagation ─► partition ─► [while-loop-all-reduce-code-motion] ─► [windowed-einsum]
//
// Of a program that `gshard-opt pipeline` made the gradients of micro-batches are added up on each
// device, and over devices once, behind the loop.
//
// Each step is a pass of core/pass_list.cc and takes its options from the PassContext.
#ifndef GSHARD_CORE_SPMD_PER_DEVICE_MODULE_H_
#define GSHARD_CORE_SPMD_PER_DEVICE_MODULE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/analysis/device_grid.h"
#include "core/pass.h"

namespace gshard {

class ReadyModule;

struct PerDeviceOptions {
  int64_t num_partitions = 0;  // 0: as the module says
  bool propagate = true;       // false: shardings are taken as they are
  // Before propagation constants get a copy for each user. False: not before GSPMD's, as in XLA on
  // CPU; the module is then simplified before its calls are inlined.
  bool split_constants = true;
  // Arrays of sizes known at run time: only as arrays of their bounds can they be cut. False: they
  // stay. So they do, with a warning, where the padder refuses them (W-DYNAMIC-001).
  bool pad_dynamic_sizes = true;
  bool weight_update_sharding = false;  // before propagation
  // The module is a copy of this one's, with other shardings where those may be: propagation is
  // what comes next. Null: it is what the user wrote.
  const ReadyModule* ready = nullptr;
  bool windowed_einsum = false;                // after partitioning
  PassManagerOptions passes;                   // verification and printing around each pass
  std::vector<PassTiming>* timings = nullptr;  // receives the time of each pass; may be null
  // See, and may change, the module between two passes; an error of theirs ends the way.
  std::function<Expected<void>(Module&module)> before_sharding, after_propagation;
};

// Imports Shardy's attributes first, where alone the devices may stand; a `num_partitions` > 0 goes
// into the header. Errors: E-SDY-*.
Expected<DeviceGrid> ReadDevices(Module& module, int64_t num_partitions = 0);

// The way up to propagation, in place: every instruction that can be inferred carries a sharding.
// Returns the devices that the module was written for.
// Errors: those of the passes. After an error the module must not be used further.
Expected<DeviceGrid> CompleteShardings(Module& module, PassContext& context,
                                       const PerDeviceOptions& options = {});

// The whole way, in place, for however many partitions there are, be it one.
Expected<DeviceGrid> MakePerDeviceModule(Module& module, PassContext& context,
                                         const PerDeviceOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_SPMD_PER_DEVICE_MODULE_H_
