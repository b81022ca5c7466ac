// How many devices there are. Device number = replica * partition_count + partition.
#ifndef GSHARD_BACKENDS_CPU_MESH_DEVICE_GRID_H_
#define GSHARD_BACKENDS_CPU_MESH_DEVICE_GRID_H_

#include <cstdint>

namespace gshard::cpu {

struct DeviceGrid {
  uint32_t replicas = 1;
  uint32_t partitions = 1;
  uint32_t device_count() const { return replicas * partitions; }
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MESH_DEVICE_GRID_H_
