#include "core/analysis/device_grid.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 20;

// Does anything speak of partitions: a collective with a channel, partition-id, a sharding?
bool SpeaksOfPartitions(const Module& module) {
  bool collectives = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() != nullptr || x->opcode() == Opcode::kPartitionId) return true;
      if (!IsCollective(x->opcode())) continue;
      collectives = true;
      if (x->attributes<CollectiveAttributes>().channel_id != 0) return true;
    }
  }
  return !collectives;
}

}  // namespace

DeviceGrid CountDevices(const Module& module, int64_t num_partitions) {
  const int64_t replicas = std::max<int64_t>(module.header().replica_count, 1);
  int64_t partitions = num_partitions;
  if (partitions <= 0) {
    const std::string recorded =
        FrontendAttribute(module.header().frontend_attributes, kNumPartitionsAttribute);
    if (!recorded.empty()) partitions = std::atoll(recorded.c_str());
  }
  if (partitions <= 0) {
    const int64_t named = module.header().num_partitions;
    partitions = named > 1 || replicas > 1 ? named : module.DeviceCount();
    // Groups without channel_id count replicas, whatever the header forgot to say.
    if (replicas == 1 && named <= 1 && !SpeaksOfPartitions(module)) {
      partitions = std::clamp<int64_t>(partitions, 1, kMaxDevices);
      return {static_cast<uint32_t>(partitions), 1};
    }
  }
  const int64_t counted = std::min(replicas, kMaxDevices);
  return {static_cast<uint32_t>(counted),
          static_cast<uint32_t>(std::clamp<int64_t>(partitions, 1, kMaxDevices / counted))};
}

std::vector<uint32_t> TileNumbers(const Sharding& tiled, uint32_t partitions) {
  const std::vector<int64_t> devices = tiled.tiles.ToList();
  const size_t copies = devices.size() / static_cast<size_t>(tiled.TileCount());
  std::vector<uint32_t> numbers(partitions);
  for (size_t place = 0; place < devices.size(); ++place) {
    const auto device = static_cast<size_t>(devices[place]);
    if (device < numbers.size()) numbers[device] = static_cast<uint32_t>(place / copies);
  }
  return numbers;
}

Expected<void> VerifyForPartitions(Module& module, int64_t partitions) {
  int64_t& named = module.header().num_partitions;
  if (named == partitions) return {};
  const int64_t before = std::exchange(named, partitions);
  Expected<void> verified = VerifyModule(module);
  named = before;
  return verified;
}

}  // namespace gshard
