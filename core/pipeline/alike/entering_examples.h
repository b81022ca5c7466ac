// Examples that go straight into the first of alike layers.
//
// Where that layer makes something of examples alone (the norm of its input), that is no part of
// the forward pass: it depends on no weight. So the layer would differ from the others. A copy of
// the examples that counts as made with weights, as a layer before it, makes it like them.
#ifndef GSHARD_CORE_PIPELINE_ALIKE_ENTERING_EXAMPLES_H_
#define GSHARD_CORE_PIPELINE_ALIKE_ENTERING_EXAMPLES_H_

#include <unordered_set>

#include "core/analysis/updates.h"
#include "core/pipeline/plan/batch.h"
#include "core/pipeline/plan/manual_regions.h"
#include "core/pipeline/plan/options.h"

namespace gshard::pipeline {

// Copies the floating examples that only the first layer uses, where more layers are alike then or
// the first is among them already. Returns the copies, for Phases. Errors: those of LayerGraph.
Expected<std::unordered_set<const Instruction*>> CopyEnteringExamples(
    Module& module, const BatchDims& batch, const Updates& updates, const PipelineOptions& options,
    const ManualRegions& regions);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ALIKE_ENTERING_EXAMPLES_H_
