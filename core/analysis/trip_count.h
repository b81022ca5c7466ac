// How often a while loop runs, where that follows from its text.
#ifndef GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_
#define GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_

#include <cstdint>
#include <optional>

#include "ir/instruction.h"

namespace gshard {

// Value of an integer or pred scalar that follows from constants alone (through arithmetic,
// converts, copies, tuples); nothing where it does not.
std::optional<int64_t> ConstantScalar(const Instruction* instruction);

// Trips of a counted loop: the condition compares a carried scalar with a bound, the body adds a
// constant to it, init and bound are constants (the bound may be carried unchanged). For others
// what XLA recorded as known_trip_count in the loop's backend_config, as compiled programs have it,
// else nothing.
std::optional<int64_t> TripCount(const Instruction& while_loop);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_TRIP_COUNT_H_
