// The pipelined module: what comes before the micro-batches, the loop, what comes after.
//
// Before and after are ordinary global code over the mesh with the stage axis: weights of alike
// stages are stacked along a dim that is cut over the stages, gradients come back the same way, and
// propagation and the partitioner do the rest.
#ifndef GSHARD_CORE_PIPELINE_EMIT_EMISSION_H_
#define GSHARD_CORE_PIPELINE_EMIT_EMISSION_H_

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/updates.h"
#include "core/pipeline/emit/region.h"
#include "core/pipeline/plan/split_batch.h"
#include "core/pipeline/plan/unpipelined_shardings.h"

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
  // Returns the user's sharding of a value of the input program; null: none.
  std::function<const Sharding*(const Instruction*)> annotation;
  const ShardingOfInstruction* unpipelined = nullptr;
  const Updates* updates = nullptr;
};

// Bytes of weights on one device while the micro-batches run.
struct WeightBytes {
  int64_t shared = 0;      // weights that every stage uses, whole on each
  int64_t alike = 0;       // weights that stages have in the same shape: those of one stage
  int64_t pieces = 0;      // other weights, as flat pieces with padding (packs.h)
  int64_t unpadded = 0;    // part of `pieces` that is no padding, mean over devices
  int64_t replicated = 0;  // those other weights if each were whole on every device
};

struct Emission {
  WeightBytes weights;
  // As RestackRows takes them.
  std::unordered_map<const Instruction*, const Sharding*> annotations;
  std::unordered_set<const Instruction*> unread;
};

// Replaces the entry of the module and sets the header's number of partitions. Errors:
// E-PIPELINE-006 (stages of the shifting buffer that are not alike).
Expected<Emission> EmitPipeline(const EmissionInputs& inputs);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_EMISSION_H_
