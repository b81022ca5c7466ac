// Loops that the plan writes out trip by trip.
#ifndef GSHARD_BACKENDS_CPU_PLAN_SHORT_LOOPS_H_
#define GSHARD_BACKENDS_CPU_PLAN_SHORT_LOOPS_H_

#include <cstdint>
#include <optional>

#include "ir/instruction.h"

namespace gshard::cpu {

// The trips of a loop of few trips of a few operations: as many copies of its body take less time
// than a loop over them, since its counters and whatever follows from them are known while
// planning, nothing is carried, and operations of several trips become one kernel. Nothing for
// others, and where it communicates, or has loops and branches of its own.
std::optional<int64_t> TripsToUnroll(const Instruction& loop);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_SHORT_LOOPS_H_
