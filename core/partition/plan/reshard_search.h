// The cheapest sequence of collectives from one layout to another, by A* over the states of
// reshard_plan.h (docs/partitioning.md, "Resharding").
#ifndef GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_
#define GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_

#include "core/partition/plan/reshard_plan.h"

namespace gshard {

// In bytes: steps must not tie with doing nothing.
inline constexpr double kReshardStepCost = 0.125;

inline constexpr size_t kMaxSearchedSubAxes = 31;

// `sub_axes`: at most kMaxSearchedSubAxes, such that every axis of both layouts (same order and
// manual sub-axes) is a run of them. Where there are too many states it reduces, gathers all and
// cuts again.
ReshardPlan SearchPlan(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                       AxisList sub_axes, const ReshardWeights& weights);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_RESHARD_SEARCH_H_
