// Which devices hold equal results of a collective, given which hold equal operands.
#ifndef GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_
#define GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_

#include <cstdint>
#include <memory>
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

// The classes of what collectives return. The devices of a collective, of the operand's classes,
// are looked at once: they outlive this.
class CollectiveClasses {
 public:
  explicit CollectiveClasses(DeviceClassTable& table);
  ~CollectiveClasses();

  // Of any collective with one operand, or of one of several; not of an all-to-all that takes each
  // part from an operand of its own.
  const DeviceClasses* Of(const Instruction& collective, const CollectiveDevices& devices,
                          const DeviceClasses& operand);

 private:
  struct Known;
  DeviceClassTable& table_;
  std::unique_ptr<Known> known_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_COLLECTIVE_CLASSES_H_
