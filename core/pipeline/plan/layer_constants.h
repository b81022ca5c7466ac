// Constants that layers have of their own: random keys written into the program, factors that
// depend on the number of the layer.
//
// The stages of a shifting buffer run one function, so what differs between them is data. Such a
// constant is one array, stacked and cut over the stages as weights are. Example: each layer's
// dropout has `fold_in(key(7), layer)`; the four keys become u32[4,2], a row a stage.
#ifndef GSHARD_CORE_PIPELINE_PLAN_LAYER_CONSTANTS_H_
#define GSHARD_CORE_PIPELINE_PLAN_LAYER_CONSTANTS_H_

#include <unordered_set>

#include "core/pipeline/plan/layers.h"

namespace gshard::pipeline {

// Values that depend on no parameter and that some, but not all, of the repeated layers compute
// with; equal values count as one. What the first or the last of these layers lacks, with no other
// in its place, is no such value: their passes may have no use for it.
std::unordered_set<const Instruction*> FindLayerConstants(const Module& module,
                                                          const Phases& phases,
                                                          const LayerGraph& layers);

// Layers may take a slice each of what is made of examples, such as example by example keys for all
// layers, u32[32,4,2]. Where it begins is then a constant, which the layer has of its own. True if
// there are such slices.
bool NumberLayerSlices(Module& module, const Phases& phases, const LayerGraph& layers);

// A constant that all layers use may stand in one of them where others have one of their own:
// factors 0.5, 1, 2 beside a 1 that all add. There it is copied, so that the copy can be the
// layer's own. Uses correspond by the operation, its operand and their order in the text, in layers
// that have equally many. Returns the copies.
std::unordered_set<const Instruction*> SplitLayerConstants(Module& module, const Phases& phases,
                                                           const LayerGraph& layers);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_LAYER_CONSTANTS_H_
