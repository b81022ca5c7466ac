// What gshard-cost says of one device, for other programs to say the same: after partitioning,
// before anything is expanded for a backend.
#ifndef GSHARD_CORE_REPORT_DEVICE_MODEL_H_
#define GSHARD_CORE_REPORT_DEVICE_MODEL_H_

#include <cstdint>
#include <optional>

#include "core/cost/chip.h"
#include "core/cost/memory/peak_memory.h"
#include "ir/module.h"

namespace gshard {

// As compilers do before they place buffers: what a call does is fused with what surrounds it, what
// nothing needs goes. Compiled text stays as it is, and so do calls that would be written out to
// more than a million instructions. Errors: those of InlineCalls.
Expected<void> CleanForCost(Module& module);

// Options of the memory model that follow from the chip.
MemoryOptions MemoryOptionsOf(const Chip& chip);

struct DeviceModel {
  int64_t peak_bytes = 0;
  double flops = 0;
};

// `memory.peak_bytes` and `flops_per_device` of gshard-cost with its default flags. `module` is the
// program of one device. Nothing where it cannot be estimated: sizes without a bound.
std::optional<DeviceModel> ModelOneDevice(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_DEVICE_MODEL_H_
