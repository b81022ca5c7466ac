// Orders of passes with the gradients of weights put off (ZB-H1, Qi et al. 2023).
//
// The backward pass is split: its first part makes the cotangent that the stage before waits for,
// its second the gradients of the stage's weights, for which nobody waits. The second part fills
// what would be idle time, while no stage keeps more than K micro-batches: from the forward pass of
// a micro-batch until its gradients of weights.
#ifndef GSHARD_CORE_PIPELINE_PLAN_ZERO_BUBBLE_H_
#define GSHARD_CORE_PIPELINE_PLAN_ZERO_BUBBLE_H_

#include <vector>

#include "core/pipeline/plan/schedule.h"

namespace gshard::pipeline {

// Passes by device, in the order in which it runs them.
using DeviceOrders = std::vector<std::vector<ScheduledPass>>;

// Returns orders worth trying; which is best depends on the times of the passes. `times` say how
// long passes of each kind take on average; orders repeat with the next micro-batches, also where
// stages are uneven. Without `puts_off` weight gradients follow the backward pass that they belong
// to, so nothing is kept for them. The order of `s` is not read.
std::vector<DeviceOrders> ZeroBubbleOrders(const Schedule& s, const PassTimes& times,
                                           bool puts_off);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_ZERO_BUBBLE_H_
