// What a planned step computes, and how much of it is useful.
#ifndef GSHARD_CORE_PIPELINE_WORK_H_
#define GSHARD_CORE_PIPELINE_WORK_H_

#include "core/pipeline/pipeline.h"

namespace gshard::pipeline {

struct WorkSummary {
  // Of all stages and micro-batches, the forward passes that are computed again included.
  // `executed` has the padding of a shifting buffer, too.
  double useful_flops = 0, executed_flops = 0;
  double recompute_fraction = 0;  // of the stages' compute time: forward passes computed again
  double imbalance = 1;           // compute time of the busiest device over the mean
};

WorkSummary SummarizeWork(const PipelinePlan& plan);

// How often the backward pass of virtual stage v computes the forward pass of one of its layers.
// What is outside a shifting buffer saves nothing. Not at all, the last stage apart, where no layer
// from this one on has a backward pass in the stage: nothing there reads what it computes.
double ForwardsAgain(const PipelinePlan& plan, size_t v, int64_t layer);

// End (exclusive) of the layers of virtual stage v.
int64_t EndOfStage(const PipelinePlan& plan, size_t v);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_WORK_H_
