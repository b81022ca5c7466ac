// Who exchanges data with whom: the groups and pairs of a collective as flat device numbers.
//
// What the ids in replica_groups mean depends on channel_id and use_global_device_ids
// (docs/text-format.md, "Collectives").
#ifndef GSHARD_CORE_ANALYSIS_DEVICE_GROUPS_H_
#define GSHARD_CORE_ANALYSIS_DEVICE_GROUPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/device_grid.h"
#include "ir/module.h"

namespace gshard {

inline constexpr uint32_t kNoDevice = UINT32_MAX;

// True for a collective-permute or the start of one.
inline bool IsCollectivePermute(const Instruction& x) {
  return x.opcode() == Opcode::kCollectivePermute || x.opcode() == Opcode::kCollectivePermuteStart;
}

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

// Returns for each device of a collective-permute where its data comes from; kNoDevice: from
// nowhere (zeros).
Expected<std::vector<uint32_t>> ResolvePermuteSources(const Instruction& instruction,
                                                      const DeviceGrid& grid);
// Same as ResolvePermuteSources for pairs of ids that `instruction` has elsewhere: ids of
// partitions, or of replicas.
Expected<std::vector<uint32_t>> ResolvePairs(const Instruction& instruction,
                                             std::span<const DevicePair> pairs, bool of_partitions,
                                             const DeviceGrid& grid);

// Devices of any collective: groups, or (collective-permute) where each device's data comes from.
struct CollectiveDevices {
  ResolvedGroups groups;
  std::vector<uint32_t> sources;
};
Expected<CollectiveDevices> ResolveCollective(const Instruction& instruction,
                                              const DeviceGrid& grid);

// Resolves the collectives of one module, those with equal groups or pairs once: programs have few
// of either, and each is as long as there are devices.
class CollectiveResolver {
 public:
  explicit CollectiveResolver(const DeviceGrid& grid);
  ~CollectiveResolver();

  // Valid as long as this is. Errors: those of ResolveCollective.
  Expected<const CollectiveDevices*> Of(const Instruction& collective);

 private:
  struct Known;
  DeviceGrid grid_;
  std::unique_ptr<Known> known_;
};

// A device that takes part in a collective, and one it waits for that does not.
struct MissingMember {
  uint32_t present = kNoDevice, missing = kNoDevice;
};
// Returns nothing if all or none of each group take part. `active`: per device, whether it does.
std::optional<MissingMember> FindMissingMember(const CollectiveDevices& devices,
                                               std::span<const uint8_t> active);
// Returns E-RUN-DEADLOCK, located at the collective.
Diagnostic DeadlockError(const Instruction& collective, const MissingMember& member);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_DEVICE_GROUPS_H_
