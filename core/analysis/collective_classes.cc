#include "core/analysis/collective_classes.h"

#include <tsl/robin_map.h>

#include <map>
#include <span>
#include <string>
#include <tuple>

namespace gshard {

GroupSequences SequencesOf(const ResolvedGroups& groups, const DeviceClasses& classes) {
  GroupSequences result;
  result.sequence_of.resize(groups.group_count());
  tsl::robin_map<std::string, uint32_t> seen;
  std::string key;
  for (uint32_t g = 0; g < groups.group_count(); ++g) {
    key.clear();
    for (uint32_t device : groups.group(g)) {
      const uint32_t c = classes.class_of(device);
      key.append(reinterpret_cast<const char*>(&c), sizeof c);
    }
    auto [entry, inserted] = seen.insert({key, static_cast<uint32_t>(result.first_group.size())});
    if (inserted) result.first_group.push_back(g);
    result.sequence_of[g] = entry->second;
  }
  return result;
}

namespace {

enum class Way : uint8_t { kSameForAll, kByPosition, kFromFirst, kFromSources };

Way WayOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
      return Way::kFromSources;
    case Opcode::kCollectiveBroadcast:
      return Way::kFromFirst;
    case Opcode::kAllToAll:
    case Opcode::kReduceScatter:
    case Opcode::kRaggedAllToAll:
      return Way::kByPosition;
    default:  // its group computes one value
      return Way::kSameForAll;
  }
}

std::vector<uint64_t> LabelsOfGroups(const ResolvedGroups& groups, const DeviceClasses& operand,
                                     bool by_position) {
  const GroupSequences sequences = SequencesOf(groups, operand);
  std::vector<uint64_t> labels(operand.class_of().size());
  for (size_t g = 0; g < groups.group_count(); ++g) {
    for (uint32_t device : groups.group(g)) {
      labels[device] = (uint64_t{sequences.sequence_of[g]} << 32) |
                       (by_position ? groups.position_of[device] : 0);
    }
  }
  return labels;
}

// Device d has what sources[d] had; kNoDevice: zeros.
std::vector<uint64_t> LabelsOfSources(std::span<const uint32_t> sources,
                                      const DeviceClasses& operand) {
  std::vector<uint64_t> labels(sources.size());
  for (size_t d = 0; d < sources.size(); ++d) {
    labels[d] = sources[d] == kNoDevice ? operand.count() : operand.class_of(sources[d]);
  }
  return labels;
}

std::vector<uint64_t> LabelsOfBroadcast(const ResolvedGroups& groups,
                                        const DeviceClasses& operand) {
  std::vector<uint32_t> sources(operand.class_of().size(), kNoDevice);
  for (size_t g = 0; g < groups.group_count(); ++g) {
    for (uint32_t device : groups.group(g)) sources[device] = groups.group(g)[0];
  }
  return LabelsOfSources(sources, operand);
}

}  // namespace

struct CollectiveClasses::Known {
  std::map<std::tuple<const CollectiveDevices*, const DeviceClasses*, Way>, const DeviceClasses*>
      classes;
};

CollectiveClasses::CollectiveClasses(DeviceClassTable& table)
    : table_(table), known_(std::make_unique<Known>()) {}
CollectiveClasses::~CollectiveClasses() = default;

const DeviceClasses* CollectiveClasses::Of(const Instruction& collective,
                                           const CollectiveDevices& devices,
                                           const DeviceClasses& operand) {
  const Way way = WayOf(collective.opcode());
  const DeviceClasses*& known = known_->classes[{&devices, &operand, way}];
  if (known != nullptr) return known;
  switch (way) {
    case Way::kFromSources:
      return known = table_.Intern(LabelsOfSources(devices.sources, operand));
    case Way::kFromFirst:
      return known = table_.Intern(LabelsOfBroadcast(devices.groups, operand));
    case Way::kByPosition:
    case Way::kSameForAll:
      break;
  }
  return known = table_.Intern(
             LabelsOfGroups(devices.groups, operand, /*by_position=*/way == Way::kByPosition));
}

}  // namespace gshard
