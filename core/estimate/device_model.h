// What gshard-cost says of one device, for other programs to say the same: after partitioning,
// before anything is expanded for a backend.
#ifndef GSHARD_CORE_ESTIMATE_DEVICE_MODEL_H_
#define GSHARD_CORE_ESTIMATE_DEVICE_MODEL_H_

#include <cstdint>
#include <optional>

#include "ir/module.h"

namespace gshard {

struct DeviceModel {
  int64_t peak_bytes = 0;
  double flops = 0;
};

// `memory.peak_bytes` and `flops_per_device` of gshard-cost with its default flags. `module` is the
// program of one device. Nothing where it cannot be estimated: sizes without a bound.
std::optional<DeviceModel> ModelOneDevice(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ESTIMATE_DEVICE_MODEL_H_
