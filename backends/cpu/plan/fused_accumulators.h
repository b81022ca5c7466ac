// Partial sums that never exist all at once: where a chain's value is only wanted by an all-reduce
// or reduce-scatter, each device's contribution is folded into its group's accumulator as soon as
// it is computed.
//
//   chain, class after class in the order of the groups
//     d0 -> acc0   d1 -> acc0   ..  |  d64 -> acc1   d65 -> acc1  ..
//
// A group's members are folded in the group's order. Where there are few groups, each is cut into
// segments of neighbouring members with an accumulator each, folded at the end; how many follows
// from the numbers of classes and groups alone, so results do not depend on the number of threads.
#ifndef GSHARD_BACKENDS_CPU_PLAN_FUSED_ACCUMULATORS_H_
#define GSHARD_BACKENDS_CPU_PLAN_FUSED_ACCUMULATORS_H_

#include "backends/cpu/plan/schedule.h"

namespace gshard::cpu {

// Fills Chain::fused_accumulators and Chain::order, and marks the values concerned
// (Value::fused_into_reduction).
void FindFusedAccumulators(Program& program, Schedule& schedule);

// Whether the accumulators of a chain's fused accumulator are the reduction's results: each group
// is one task.
bool FoldsIntoResults(const Chain& chain, const FusedAccumulator& fused_accumulator);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_FUSED_ACCUMULATORS_H_
