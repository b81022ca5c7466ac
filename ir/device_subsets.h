// Shardings over some of the devices, such as {devices=[2,2]0,1,4,5} of eight: what says that there
// are any, and who refuses them. Propagation carries them; the program of one device, which all
// devices run, cannot say them.
#ifndef GSHARD_IR_DEVICE_SUBSETS_H_
#define GSHARD_IR_DEVICE_SUBSETS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/tile_assignment.h"

namespace gshard {

// The first number that a list of devices has twice.
std::optional<int64_t> FirstRepeated(std::span<const int64_t> devices);
// The largest device number plus one: device_count() unless the devices are not 0..n-1.
int64_t DeviceLimit(const TileAssignment& tiles);
bool HaveSameDevices(const TileAssignment& a, const TileAssignment& b);

// Is a sharding written as a list of some of the module's devices? Then others may be over some,
// too; without it, 0..n-1 of more devices is taken for a mistake.
bool HasDeviceSubsets(const Module& module);

// E-PARTITION-009 at the first instruction that is sharded over some of the devices 0..devices-1.
// A value of a single device (maximal) is not: it is broadcast.
Expected<void> RefuseDeviceSubsets(const Module& module, int64_t devices);

}  // namespace gshard

#endif  // GSHARD_IR_DEVICE_SUBSETS_H_
