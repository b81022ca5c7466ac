// The pipelined module: what comes before the micro-batches, the loop, what comes after.
//
// Before and after are ordinary global code over the mesh with the stage axis: weights of alike
// stages are stacked along a dim that is cut over the stages, gradients come back the same way, and
// propagation and the partitioner do the rest.
#ifndef GSHARD_CORE_PIPELINE_EMISSION_H_
#define GSHARD_CORE_PIPELINE_EMISSION_H_

#include <functional>

#include "core/pipeline/batch.h"
#include "core/pipeline/region.h"

namespace gshard::pipeline {

struct EmissionInputs {
  Module* module = nullptr;
  const PipelineOptions* options = nullptr;
  const BatchDims* batch = nullptr;
  const SplitProgram* split = nullptr;
  const Phases* phases = nullptr;
  const LayerGraph* layers = nullptr;
  const StageGraph* stages = nullptr;
  const Schedule* schedule = nullptr;
  const RegionShardings* shardings = nullptr;
  std::function<const Sharding*(const Instruction*)> annotation;  // of IN, by name; null: none
};

// Replaces the entry. The header's number of partitions is set.
void EmitPipeline(const EmissionInputs& inputs);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMISSION_H_
