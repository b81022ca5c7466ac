// The way by which devices come to a computation, and what to say where some of them do not.
#ifndef GSHARD_CORE_CHECK_DEVICE_PATH_H_
#define GSHARD_CORE_CHECK_DEVICE_PATH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/analysis/device_classes.h"
#include "core/analysis/device_groups.h"
#include "core/check/finding.h"

namespace gshard {

// One step: into a loop or a branch. Steps point to those around them, which outlive them.
struct DevicePath {
  const DevicePath* outer = nullptr;
  const Instruction* split = nullptr;  // the while or conditional; null: the entry

  // The devices that come here if all open choices go one way, one byte each; null: all.
  const std::vector<uint8_t>* active = nullptr;
  // Where it is known: the branch of each device, or which trip of the loop this is.
  const std::vector<int32_t>* branch_of = nullptr;
  int64_t trip = -1;

  // Where it is open: devices of one class of `choice` choose alike; null: it is not.
  const DeviceClasses* choice = nullptr;
  // The same for all open choices on the way together. Never null.
  const DeviceClasses* may_part = nullptr;
  // May it be that no device comes here?
  bool depends_on_data = false;

  bool Has(uint32_t device) const { return active == nullptr || (*active)[device] != 0; }
  // A step further; this must outlive it.
  DevicePath Into(const Instruction& instruction) const;
};

// Two devices that a collective joins and that an open choice on the way may part.
std::optional<MissingMember> FindMemberThatMayBeMissing(const CollectiveDevices& devices,
                                                        const DevicePath& path);

// `collective` is reached by member.present and not by member.missing: where they parted, and what
// the other one comes to instead. An error, or a warning if it depends on data whether any comes.
CommunicationFinding PartedFinding(const Instruction& collective, const MissingMember& member,
                                   const DevicePath& path);
// The two may part: a warning with the condition that decides.
CommunicationFinding MayPartFinding(const Instruction& collective, const MissingMember& member,
                                    const DevicePath& path);

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_DEVICE_PATH_H_
