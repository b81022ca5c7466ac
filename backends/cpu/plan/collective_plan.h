// What a collective reads and writes, worked out once: the members' buffers of every group that
// computes something of its own.
#ifndef GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_
#define GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_

#include <cstdint>
#include <span>

#include "backends/cpu/plan/plan.h"

namespace gshard::cpu {

// Errors (E-RUN-*): shapes that do not fit the groups, reductions that cannot be compiled.
Expected<CollectiveStep> PlanCollective(const Program& program, const Op& op,
                                        const InstancePlaces& places);

// The part of a reduction whose members were folded into accumulators already: `per_group`
// neighbouring ones for every sequence of groups, in order.
Expected<CollectivePart> PlanFinish(const Program& program, const Op& op, size_t index,
                                    const InstancePlaces& places,
                                    std::span<const int64_t> accumulators, uint32_t per_group);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_
