// Do both ends of a ragged-all-to-all agree on how many rows go from one to the other?
#ifndef GSHARD_CORE_CHECK_RAGGED_SIZES_H_
#define GSHARD_CORE_CHECK_RAGGED_SIZES_H_

#include <optional>
#include <span>

#include "core/check/device_value.h"
#include "core/check/finding.h"

namespace gshard {

// Where the sizes are known: an error at the first pair of devices that does not, as E-RUN-RANGE.
std::optional<CommunicationFinding> CompareRaggedSizes(
    const Instruction& x, const ResolvedGroups& groups,
    std::span<const DeviceLeaves* const> operands);

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_RAGGED_SIZES_H_
