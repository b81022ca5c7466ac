// Resolution of replica_groups and source_target_pairs to flat device numbers.
#include "backends/cpu/mesh/collective_groups.h"

#include <fmt/format.h>

#include "ir/verify/verifier.h"

namespace gshard::cpu {
namespace {

tl::unexpected<Diagnostic> GroupError(const Instruction& instruction, std::string message) {
  return Fail(
      instruction.parent()->module().ErrorAt(&instruction, "E-RUN-GROUPS", std::move(message)));
}

// What the ids of a collective count.
enum class IdMeaning : uint8_t { kReplica, kPartition, kReplicaOfAllPartitions, kFlat };

IdMeaning MeaningOf(const Instruction& instruction, const CollectiveAttributes& attributes) {
  if (attributes.channel_id == 0) return IdMeaning::kReplica;
  switch (instruction.opcode()) {
    case Opcode::kAllToAll:
    case Opcode::kRaggedAllToAll:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectiveBroadcast:
      return IdMeaning::kPartition;
    default:
      return attributes.use_global_device_ids ? IdMeaning::kFlat
                                              : IdMeaning::kReplicaOfAllPartitions;
  }
}

bool NeedsEqualSizes(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kCollectiveBroadcast:
      return false;
    default:
      return true;
  }
}

}  // namespace

Expected<ResolvedGroups> ResolveGroups(const Instruction& instruction, const DeviceGrid& grid) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  const IdMeaning meaning = MeaningOf(instruction, attributes);
  int64_t ids = 0;
  switch (meaning) {
    case IdMeaning::kReplica:
    case IdMeaning::kReplicaOfAllPartitions:
      ids = grid.replicas;
      break;
    case IdMeaning::kPartition:
      ids = grid.partitions;
      break;
    case IdMeaning::kFlat:
      ids = grid.device_count();
      break;
  }
  std::vector<std::vector<int64_t>> lists;
  if (attributes.replica_groups != nullptr) {
    lists = attributes.replica_groups->ToLists(ids);
  } else {
    lists = ReplicaGroups().ToLists(ids);
  }
  ResolvedGroups groups;
  groups.begin.push_back(0);
  const uint32_t copies = meaning == IdMeaning::kReplica     ? grid.partitions
                          : meaning == IdMeaning::kPartition ? grid.replicas
                                                             : 1;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    for (const auto& list : lists) {
      for (int64_t id : list) {
        if (id < 0 || id >= ids) {
          return GroupError(instruction,
                            fmt::format("replica_groups name {} but there are {} {}", id, ids,
                                        meaning == IdMeaning::kPartition ? "partitions"
                                        : meaning == IdMeaning::kFlat    ? "devices"
                                                                         : "replicas"));
        }
        const auto device = static_cast<uint32_t>(id);
        switch (meaning) {
          case IdMeaning::kReplica:
            groups.members.push_back(device * grid.partitions + copy);
            break;
          case IdMeaning::kPartition:
            groups.members.push_back(copy * grid.partitions + device);
            break;
          case IdMeaning::kReplicaOfAllPartitions:
            for (uint32_t p = 0; p < grid.partitions; ++p) {
              groups.members.push_back(device * grid.partitions + p);
            }
            break;
          case IdMeaning::kFlat:
            groups.members.push_back(device);
            break;
        }
      }
      groups.begin.push_back(static_cast<uint32_t>(groups.members.size()));
    }
  }
  groups.group_of.assign(grid.device_count(), kNoDevice);
  groups.position_of.assign(grid.device_count(), 0);
  for (uint32_t g = 0; g < groups.group_count(); ++g) {
    uint32_t position = 0;
    for (uint32_t device : groups.group(g)) {
      if (groups.group_of[device] != kNoDevice) {
        return GroupError(instruction,
                          fmt::format("device {} is in replica_groups more than once", device));
      }
      groups.group_of[device] = g;
      groups.position_of[device] = position++;
    }
    if (NeedsEqualSizes(instruction.opcode()) && position != groups.group(0).size()) {
      return GroupError(instruction, "replica_groups of different sizes");
    }
  }
  if (instruction.opcode() != Opcode::kCollectiveBroadcast) {
    for (uint32_t device = 0; device < grid.device_count(); ++device) {
      if (groups.group_of[device] == kNoDevice) {
        return GroupError(instruction,
                          fmt::format("device {} is in none of the replica_groups", device));
      }
    }
  }
  // Kernels rely on it: the text may leave the size open, or be run on more devices than it knew.
  const auto members = static_cast<int64_t>(groups.group(0).size());
  if (auto problem = CheckGroupSize(instruction, members)) {
    return GroupError(instruction, std::move(*problem));
  }
  return groups;
}

Expected<std::vector<uint32_t>> ResolvePermuteSources(const Instruction& instruction,
                                                      const DeviceGrid& grid) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  const bool partitions = MeaningOf(instruction, attributes) == IdMeaning::kPartition;
  const int64_t ids = partitions ? grid.partitions : grid.replicas;
  const uint32_t copies = partitions ? grid.replicas : grid.partitions;
  std::vector<uint32_t> sources(grid.device_count(), kNoDevice);
  std::vector<bool> sends(static_cast<size_t>(ids), false);
  for (const DevicePair& pair : attributes.source_target_pairs) {
    for (int64_t id : {pair.source, pair.target}) {
      if (id < 0 || id >= ids) {
        return GroupError(instruction,
                          fmt::format("source_target_pairs name {} but there are {} {}", id, ids,
                                      partitions ? "partitions" : "replicas"));
      }
    }
    const auto source = static_cast<uint32_t>(pair.source);
    const auto target = static_cast<uint32_t>(pair.target);
    if (sends[source]) {
      return GroupError(instruction, fmt::format("{} is the source of two pairs", source));
    }
    sends[source] = true;
    for (uint32_t copy = 0; copy < copies; ++copy) {
      const uint32_t from =
          partitions ? copy * grid.partitions + source : source * grid.partitions + copy;
      const uint32_t to =
          partitions ? copy * grid.partitions + target : target * grid.partitions + copy;
      if (sources[to] != kNoDevice) {
        return GroupError(instruction, fmt::format("{} is the target of two pairs", target));
      }
      sources[to] = from;
    }
  }
  return sources;
}

}  // namespace gshard::cpu
