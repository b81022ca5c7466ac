// Integer scalars of a counted loop's body, trip by trip and device by device.
//
// Where a value follows from the loop's counter, partition-id and constants (tables with lookups
// among them), it is known what every device has in every trip: which stage of a pipeline runs
// which pass in which clock tick.
#ifndef GSHARD_CORE_ANALYSIS_LOOP_SCALARS_H_
#define GSHARD_CORE_ANALYSIS_LOOP_SCALARS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// Devices that have equal values in every trip are a group.
struct LoopScalars {
  std::vector<std::vector<int64_t>> groups;  // devices, ascending; by their first device
  int64_t trips = 0;

  // Of the scalar number `which` of those asked for.
  int64_t At(size_t which, int64_t trip, size_t group) const {
    const size_t row = which * static_cast<size_t>(trips) + static_cast<size_t>(trip);
    return values[row * groups.size() + group];
  }
  std::vector<int64_t> values;
};

// The values of `scalars`, instructions of the body of `while_loop`, on devices 0..device_count-1;
// nothing where one of them may depend on anything else, the loop is not counted, or there are too
// many values (trips times groups).
std::optional<LoopScalars> EvaluateInLoop(const Instruction& while_loop,
                                          std::span<const Instruction* const> scalars,
                                          int64_t device_count);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_LOOP_SCALARS_H_
