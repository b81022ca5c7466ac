// How often a while loop runs, where that follows from its text.
#ifndef GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_
#define GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_

#include <cstdint>
#include <optional>

#include "ir/instruction.h"

namespace gshard {

// The carried scalar that counts a loop's trips: `start` + t * `step` in trip t.
struct LoopCounter {
  int64_t element = 0;  // of the carried tuple
  int64_t start = 0, step = 1;
  int64_t trips = 0;
};

// Of a counted loop (see TripCount), by its text alone.
std::optional<LoopCounter> CounterOf(const Instruction& while_loop);

// Trips of a counted loop: the condition compares a carried scalar with a bound, the body adds a
// constant to it, init and bound are constants (the bound may be carried unchanged). Of several
// such comparisons, joined by `and`, the one that fails first ends the loop. For others
// what XLA recorded as known_trip_count in the loop's backend_config, as compiled programs have it,
// else nothing.
std::optional<int64_t> TripCount(const Instruction& while_loop);

// Of a loop that also ends for other reasons, as iterations until they converge do: trips after
// which one part of its condition, joined to the others by `and`, ends it.
std::optional<int64_t> MostTrips(const Instruction& while_loop);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_
