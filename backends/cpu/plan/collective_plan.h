// What a collective reads and writes, worked out once: the members' buffers of every group that
// computes something of its own.
#ifndef GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_
#define GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_

#include <cstdint>
#include <functional>
#include <span>

#include "backends/cpu/plan/plan.h"

namespace gshard::cpu {

// `value_offsets`: arena offsets by value; `absolute`: of a located instance. Errors (E-RUN-*):
// shapes that do not fit the groups, reductions that cannot be compiled.
Expected<CollectiveStep> PlanCollective(const Program& program, const Op& op,
                                        std::span<const int64_t> value_offsets,
                                        const std::function<int64_t(const View::Entry&)>& absolute);

// The part of a reduction whose members were folded into accumulators already: `per_group`
// neighbouring ones for every sequence of groups, in order.
Expected<CollectivePart> PlanFinish(const Program& program, const Op& op, size_t index,
                                    std::span<const int64_t> value_offsets,
                                    std::span<const int64_t> accumulators, uint32_t per_group);

// A device of some group that does not take part although another member of the group does, or
// kNoDevice. `active`: per device.
uint32_t FindMissingMember(const Op& op, std::span<const uint8_t> active, uint32_t* present);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_PLAN_H_
