// Sums over the batch within layers: in loops over time, and in branches.
#ifndef GSHARD_CORE_PIPELINE_PLAN_INNER_SUMS_H_
#define GSHARD_CORE_PIPELINE_PLAN_INNER_SUMS_H_

#include "ir/module.h"

namespace gshard::pipeline {

// Moves all-reduces that add up out of loops (core/transforms/collectives/while_loop_all_reduce_code_motion.h)
// and out of branches, where every branch of a conditional ends in what is linear in some, or in
// zeros:
//
//   conditional(p, .., ..) of {transpose(all-reduce(g))} and {0}
//   all-reduce(conditional(p, .., ..) of {transpose(g)} and {0})
//
// In loops and branches a slice, transpose or the like of a sum is taken as the sum of slices
// first. The predicate is the same for all micro-batches, or follows from a sum that is each
// micro-batch's own. Loops and branches that layers share, and that have such sums, are each
// layer's afterwards.
void MoveSumsOut(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_INNER_SUMS_H_
