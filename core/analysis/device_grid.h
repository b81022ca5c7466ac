// How many devices there are. Device number = replica * partition_count + partition.
#ifndef GSHARD_CORE_ANALYSIS_DEVICE_GRID_H_
#define GSHARD_CORE_ANALYSIS_DEVICE_GRID_H_

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace gshard {

struct DeviceGrid {
  uint32_t replicas = 1;
  uint32_t partitions = 1;
  uint32_t device_count() const { return replicas * partitions; }
};

// The devices that run a module: `num_partitions` if that is > 0, else what the module says
// (docs/emulator.md): its record, its header, its shardings, its collectives. Shardy's attributes
// are not looked at.
DeviceGrid CountDevices(const Module& module, int64_t num_partitions = 0);

// Verifies the module as one of so many partitions. Groups and shardings of a text that does not
// say how many there are hold for any number (E-VERIFY-006, -008); by now it is known.
Expected<void> VerifyForPartitions(Module& module, int64_t partitions);

// The tile of each partition, counted row-major over the data dims; `tiled` is that. 0 for those
// that it does not name.
std::vector<uint32_t> TileNumbers(const Sharding& tiled, uint32_t partitions);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_DEVICE_GRID_H_
