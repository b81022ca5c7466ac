// Time that weights cost whose shape few stages have. They are stored as flat pieces
// (core/pipeline/emit/packs.h): a pass copies the weights out of these, and the sums of their
// gradients out and in.
#ifndef GSHARD_CORE_PIPELINE_PLAN_UNLIKE_WEIGHTS_H_
#define GSHARD_CORE_PIPELINE_PLAN_UNLIKE_WEIGHTS_H_

#include <vector>

#include "core/pipeline/plan/layers.h"

namespace gshard::pipeline {

// Returns seconds per micro-batch by virtual stage, for virtual stages that begin with the layers
// `first`.
std::vector<double> UnlikeWeightSeconds(const Module& module, const LayerGraph& layers,
                                        const std::vector<int64_t>& first,
                                        const PipelineOptions& options);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_UNLIKE_WEIGHTS_H_
