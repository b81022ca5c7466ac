// The cheapest sequence of collectives from one layout to another, by A* over the states of
// reshard_plan.h (docs/partitioning.md, "Resharding").
#ifndef GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_
#define GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_

#include <optional>
#include <span>

#include "core/partition/plan/reshard_plan.h"

namespace gshard {

// Cost of a step, in bytes: no step must cost as little as doing nothing.
inline constexpr double kReshardStepCost = 0.125;

inline constexpr size_t kMaxSearchedSubAxes = 31;

// Returns the plan of least cost (ReshardPlan::cost) among the moves that the search tries.
// `sub_axes`: at most kMaxSearchedSubAxes, such that every axis of both layouts (same order and
// manual sub-axes) is a run of them. The lower bound that A* adds to a state's cost is the target's
// tile in bytes less what of it may be in the state's tile; 0 while values are partial. After 2000
// expanded states it gives up and returns the plan that always exists: reduce, gather everything,
// slice.
ReshardPlan SearchPlan(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                       AxisList sub_axes, const ReshardWeights& weights);

// The same with steps of the kinds given and re-tiling; nothing: there is no such plan.
std::optional<ReshardPlan> SearchPlanOf(std::span<const ReshardKind> kinds, const Shape* shape,
                                        const MeshLayout* from, const MeshLayout* to,
                                        AxisList sub_axes, const ReshardWeights& weights);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_
