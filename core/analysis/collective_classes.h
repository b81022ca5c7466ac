// Which devices hold equal results of a collective, given which hold equal operands.
#ifndef GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_
#define GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/device_classes.h"
#include "core/analysis/device_groups.h"

namespace gshard {

// Groups whose members hold the same sequence of instances: such groups compute the same.
struct GroupSequences {
  std::vector<uint32_t> sequence_of;  // per group
  std::vector<uint32_t> first_group;  // per sequence, the lowest group that has it
};
GroupSequences SequencesOf(const ResolvedGroups& groups, const DeviceClasses& classes);

// The classes of an all-reduce-like (`by_position` false: all members get the same) or
// reduce-scatter-like result.
const DeviceClasses* ClassesOfGroups(DeviceClassTable& table, const ResolvedGroups& groups,
                                     const GroupSequences& sequences, bool by_position);

// Of a permute's or broadcast's: device d has what sources[d] had; kNoDevice: zeros.
const DeviceClasses* MovedClasses(DeviceClassTable& table, std::span<const uint32_t> sources,
                                  const DeviceClasses& classes);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_
