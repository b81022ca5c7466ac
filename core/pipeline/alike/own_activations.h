// Elementwise values that layers share, computed in each of them.
#ifndef GSHARD_CORE_PIPELINE_ALIKE_OWN_ACTIVATIONS_H_
#define GSHARD_CORE_PIPELINE_ALIKE_OWN_ACTIVATIONS_H_

#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/phases.h"

namespace gshard::pipeline {

// Many layers may use what elementwise operations make of one value, such as silu(e) of a
// conditioning vector, and equal values of a step are computed once. Then the derivative is known
// in the first of these layers only, so that the cotangents of all go there one by one. Gives each
// layer these operations of its own, if no more crosses between layers so: the value behind them
// crosses in their place. Returns true if the module has changed; `phases` and `layers` are then
// those of the module as it was.
bool ComputeActivationsInEachLayer(Module& module, const Phases& phases, const LayerGraph& layers);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ALIKE_OWN_ACTIVATIONS_H_
