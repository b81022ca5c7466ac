// Resolution of replica_groups and source_target_pairs to flat device numbers.
#include "core/analysis/device_groups.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>

#include "ir/verify/verifier.h"

namespace gshard {
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
    default:  // the attributes say
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
    default:  // each member sends or gets a share
      return true;
  }
}

// How many ids a group may name, and what they are called.
struct IdRange {
  int64_t count = 0;
  const char* name = "";
};
IdRange IdsOf(IdMeaning meaning, const DeviceGrid& grid) {
  switch (meaning) {
    case IdMeaning::kReplica:
    case IdMeaning::kReplicaOfAllPartitions:
      return {grid.replicas, "replicas"};
    case IdMeaning::kPartition:
      return {grid.partitions, "partitions"};
    case IdMeaning::kFlat:
      break;
  }
  return {grid.device_count(), "devices"};
}

// The devices that `id` means in the given copy of the groups: of replicas there is a copy a
// partition, of partitions one a replica.
void AppendDevices(IdMeaning meaning, uint32_t id, uint32_t copy, const DeviceGrid& grid,
                   std::vector<uint32_t>& devices) {
  switch (meaning) {
    case IdMeaning::kReplica:
      devices.push_back(id * grid.partitions + copy);
      break;
    case IdMeaning::kPartition:
      devices.push_back(copy * grid.partitions + id);
      break;
    case IdMeaning::kReplicaOfAllPartitions:
      for (uint32_t p = 0; p < grid.partitions; ++p) devices.push_back(id * grid.partitions + p);
      break;
    case IdMeaning::kFlat:
      devices.push_back(id);
      break;
  }
}

// Sets group and position of each device from the members of the groups, which are to be right for
// the operation.
Expected<void> PlaceDevices(const Instruction& instruction, const DeviceGrid& grid,
                            ResolvedGroups& groups) {
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
  if (instruction.opcode() == Opcode::kCollectiveBroadcast) return {};
  for (uint32_t device = 0; device < grid.device_count(); ++device) {
    if (groups.group_of[device] == kNoDevice) {
      return GroupError(instruction,
                        fmt::format("device {} is in none of the replica_groups", device));
    }
  }
  return {};
}

// Kernels rely on it: the text may leave the size open, or be run on more devices than it knew.
Expected<void> CheckSize(const Instruction& instruction, const ResolvedGroups& groups) {
  const auto members = static_cast<int64_t>(groups.group(0).size());
  if (auto problem = CheckGroupSize(instruction, members)) {
    return GroupError(instruction, std::move(*problem));
  }
  return {};
}

// All that the devices of a collective follow from.
struct CollectiveKey {
  Opcode opcode = Opcode::kAllReduce;
  const CollectiveAttributes* attributes = nullptr;

  const ReplicaGroups& groups() const {
    static const ReplicaGroups all;
    return attributes->replica_groups != nullptr ? *attributes->replica_groups : all;
  }
  bool operator==(const CollectiveKey& other) const {
    return opcode == other.opcode &&
           (attributes->channel_id == 0) == (other.attributes->channel_id == 0) &&
           attributes->use_global_device_ids == other.attributes->use_global_device_ids &&
           std::ranges::equal(attributes->source_target_pairs,
                              other.attributes->source_target_pairs) &&
           groups() == other.groups();
  }
};

// Of lists a few entries: they are compared in any case.
struct CollectiveKeyHash {
  size_t operator()(const CollectiveKey& key) const {
    constexpr size_t kEntries = 32;
    size_t hash = static_cast<size_t>(key.opcode);
    const auto mix = [&hash](int64_t x) {
      hash = (hash ^ static_cast<size_t>(x)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    };
    const std::span<const DevicePair> pairs = key.attributes->source_target_pairs;
    for (size_t i = 0; i < pairs.size(); i += pairs.size() / kEntries + 1) {
      mix(pairs[i].source);
      mix(pairs[i].target);
    }
    const ReplicaGroups& groups = key.groups();
    mix(groups.GroupCount());
    if (groups.tiles() != nullptr) mix(static_cast<int64_t>(groups.tiles()->Hash()));
    return hash;
  }
};

}  // namespace

Expected<ResolvedGroups> ResolveGroups(const Instruction& instruction, const DeviceGrid& grid) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  const IdMeaning meaning = MeaningOf(instruction, attributes);
  const IdRange ids = IdsOf(meaning, grid);
  const std::vector<std::vector<int64_t>> lists =
      attributes.replica_groups != nullptr ? attributes.replica_groups->ToLists(ids.count)
                                           : ReplicaGroups().ToLists(ids.count);
  const uint32_t copies = meaning == IdMeaning::kReplica     ? grid.partitions
                          : meaning == IdMeaning::kPartition ? grid.replicas
                                                             : 1;
  ResolvedGroups groups;
  groups.begin.push_back(0);
  for (uint32_t copy = 0; copy < copies; ++copy) {
    for (const auto& list : lists) {
      for (int64_t id : list) {
        if (id < 0 || id >= ids.count) {
          return GroupError(instruction, fmt::format("replica_groups name {} but there are {} {}",
                                                     id, ids.count, ids.name));
        }
        AppendDevices(meaning, static_cast<uint32_t>(id), copy, grid, groups.members);
      }
      groups.begin.push_back(static_cast<uint32_t>(groups.members.size()));
    }
  }
  if (auto done = PlaceDevices(instruction, grid, groups); !done) return Fail(done.error());
  if (auto done = CheckSize(instruction, groups); !done) return Fail(done.error());
  return groups;
}

Expected<std::vector<uint32_t>> ResolvePermuteSources(const Instruction& instruction,
                                                      const DeviceGrid& grid) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  const bool partitions = MeaningOf(instruction, attributes) == IdMeaning::kPartition;
  return ResolvePairs(instruction, attributes.source_target_pairs, partitions, grid);
}

Expected<std::vector<uint32_t>> ResolvePairs(const Instruction& instruction,
                                             std::span<const DevicePair> pairs, bool partitions,
                                             const DeviceGrid& grid) {
  const int64_t ids = partitions ? grid.partitions : grid.replicas;
  const uint32_t copies = partitions ? grid.replicas : grid.partitions;
  std::vector<uint32_t> sources(grid.device_count(), kNoDevice);
  std::vector<bool> sends(static_cast<size_t>(ids), false);
  for (const DevicePair& pair : pairs) {
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

Expected<CollectiveDevices> ResolveCollective(const Instruction& instruction,
                                              const DeviceGrid& grid) {
  CollectiveDevices devices;
  if (IsCollectivePermute(instruction)) {
    auto sources = ResolvePermuteSources(instruction, grid);
    if (!sources) return Fail(sources.error());
    devices.sources = std::move(*sources);
  } else {
    auto groups = ResolveGroups(instruction, grid);
    if (!groups) return Fail(groups.error());
    devices.groups = std::move(*groups);
  }
  return devices;
}

struct CollectiveResolver::Known {
  tsl::robin_map<CollectiveKey, std::unique_ptr<const CollectiveDevices>, CollectiveKeyHash>
      devices;
};

CollectiveResolver::CollectiveResolver(const DeviceGrid& grid)
    : grid_(grid), known_(std::make_unique<Known>()) {}
CollectiveResolver::~CollectiveResolver() = default;

Expected<const CollectiveDevices*> CollectiveResolver::Of(const Instruction& collective) {
  const CollectiveKey key{collective.opcode(), &collective.attributes<CollectiveAttributes>()};
  const auto found = known_->devices.find(key);
  if (found == known_->devices.end()) {
    auto resolved = ResolveCollective(collective, grid_);
    if (!resolved) return Fail(resolved.error());
    auto devices = std::make_unique<const CollectiveDevices>(std::move(*resolved));
    return known_->devices.try_emplace(key, std::move(devices)).first->second.get();
  }
  // Which size is right depends on the shapes.
  if (!IsCollectivePermute(collective)) {
    if (auto done = CheckSize(collective, found->second->groups); !done) return Fail(done.error());
  }
  return found->second.get();
}

std::optional<MissingMember> FindMissingMember(const CollectiveDevices& devices,
                                               std::span<const uint8_t> active) {
  for (uint32_t target = 0; target < devices.sources.size(); ++target) {
    const uint32_t source = devices.sources[target];
    if (source == kNoDevice || active[source] == active[target]) continue;
    return active[source] != 0 ? MissingMember{source, target} : MissingMember{target, source};
  }
  for (size_t g = 0; g < devices.groups.group_count(); ++g) {
    MissingMember found;
    for (uint32_t device : devices.groups.group(g)) {
      uint32_t& slot = active[device] != 0 ? found.present : found.missing;
      if (slot == kNoDevice) slot = device;
    }
    if (found.present != kNoDevice && found.missing != kNoDevice) return found;
  }
  return std::nullopt;
}

Diagnostic DeadlockError(const Instruction& collective, const MissingMember& member) {
  return collective.parent()->module().ErrorAt(
      &collective, "E-RUN-DEADLOCK",
      fmt::format(
          "deadlock: device {} waits in {} {} for device {}, which did not take this branch",
          member.present, OpcodeName(collective.opcode()), collective.name(), member.missing));
}

}  // namespace gshard
