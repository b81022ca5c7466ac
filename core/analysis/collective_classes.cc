#include "core/analysis/collective_classes.h"

#include <tsl/robin_map.h>

#include <string>

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

const DeviceClasses* ClassesOfGroups(DeviceClassTable& table, const ResolvedGroups& groups,
                                     const GroupSequences& sequences, bool by_position) {
  std::vector<uint64_t> labels(table.device_count());
  for (size_t g = 0; g < groups.group_count(); ++g) {
    for (uint32_t device : groups.group(g)) {
      labels[device] = (uint64_t{sequences.sequence_of[g]} << 32) |
                       (by_position ? groups.position_of[device] : 0);
    }
  }
  return table.Intern(labels);
}

const DeviceClasses* MovedClasses(DeviceClassTable& table, std::span<const uint32_t> sources,
                                  const DeviceClasses& classes) {
  std::vector<uint64_t> labels(sources.size());
  for (size_t d = 0; d < sources.size(); ++d) {
    labels[d] = sources[d] == kNoDevice ? UINT64_MAX : classes.class_of(sources[d]);
  }
  return table.Intern(labels);
}

}  // namespace gshard
