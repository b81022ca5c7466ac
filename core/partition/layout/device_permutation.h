// Who sends what to whom: pairs of collective-permutes, from layouts. Linear in the devices, with
// no division per device: these are the only lists of devices that partitioning makes.
#ifndef GSHARD_CORE_PARTITION_LAYOUT_DEVICE_PERMUTATION_H_
#define GSHARD_CORE_PARTITION_LAYOUT_DEVICE_PERMUTATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/partition/layout/mesh_layout.h"
#include "ir/attributes.h"

namespace gshard {

// Mixed-radix number that the coordinates of each position form.
std::vector<int32_t> CoordinatesOnAxes(AxisSpan axes, int64_t device_count);

// Each tile of `to` from a device that has it in `from`; devices that have theirs already keep it,
// and of several holders each serves one. By increasing source; empty if nothing moves. The layouts
// have the same tile counts and manual sub-axes.
std::vector<DevicePair> PermutationBetween(const MeshLayout& from, const MeshLayout& to,
                                           int64_t device_count);

// In every row of the other sub-axes, the device at coordinate i on `axes` receives from the one at
// source_of[i] (negative: from nobody). By increasing source.
std::vector<DevicePair> PermutationAlong(AxisSpan axes, std::span<const int64_t> source_of,
                                         const DeviceOrder* order, int64_t device_count);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_DEVICE_PERMUTATION_H_
