// Who exchanges data with whom: the groups and pairs of a collective as flat device numbers.
//
// What the ids in replica_groups mean
// depends on channel_id and use_global_device_ids (docs/text-format.md, "Collectives").
#ifndef GSHARD_BACKENDS_CPU_MESH_COLLECTIVE_GROUPS_H_
#define GSHARD_BACKENDS_CPU_MESH_COLLECTIVE_GROUPS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/mesh/device_grid.h"
#include "ir/module.h"

namespace gshard::cpu {

inline constexpr uint32_t kNoDevice = UINT32_MAX;

struct ResolvedGroups {
  std::vector<uint32_t> members;      // group after group, in the order the groups list them
  std::vector<uint32_t> begin;        // group g is members[begin[g] .. begin[g + 1])
  std::vector<uint32_t> group_of;     // per device; kNoDevice: in no group
  std::vector<uint32_t> position_of;  // per device: its place in its group

  size_t group_count() const { return begin.empty() ? 0 : begin.size() - 1; }
  std::span<const uint32_t> group(size_t g) const {
    return std::span<const uint32_t>(members).subspan(begin[g], begin[g + 1] - begin[g]);
  }
};

// Groups of a collective other than collective-permute. Errors (E-RUN-GROUPS): ids out of range, a
// device twice, a device in no group (allowed for collective-broadcast), sizes that differ where
// the operation needs equal ones.
Expected<ResolvedGroups> ResolveGroups(const Instruction& instruction, const DeviceGrid& grid);

// Of a collective-permute: where each device's data comes from; kNoDevice: from nowhere (zeros).
Expected<std::vector<uint32_t>> ResolvePermuteSources(const Instruction& instruction,
                                                      const DeviceGrid& grid);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MESH_COLLECTIVE_GROUPS_H_
