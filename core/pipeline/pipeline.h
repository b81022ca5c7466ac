// From a training step to a pipelined one (docs/pipelining.md; GPipe, Huang et al. 2019; GSPMD
// paper, section 3.3).
#ifndef GSHARD_CORE_PIPELINE_PIPELINE_H_
#define GSHARD_CORE_PIPELINE_PIPELINE_H_

#include <optional>
#include <string>
#include <vector>

#include "core/pipeline/emit/emission.h"
#include "core/pipeline/emitted_cost.h"
#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/options.h"
#include "core/pipeline/plan/schedule.h"
#include "ir/attribute_names.h"

namespace gshard::pipeline {

// A sum over the examples of a micro-batch that the step needs again for these examples, as batch
// norm needs its mean: it is not the whole batch's.
struct MicrobatchSum {
  std::string name;     // of the instruction that sums
  std::string op_name;  // of the front end; may be empty
  std::string source;   // "file.py:12"; may be empty
};

// What was decided, for reports.
struct PipelinePlan {
  PipelineOptions options;
  int64_t batch = 0;
  std::vector<Layer> layers;
  std::vector<int64_t> first_layers;  // of each virtual stage; shift: before, stages, after
  Schedule schedule;
  PassTimes times;        // in seconds, by the cost model, or those that were given
  Simulation simulation;  // of the schedule with these times
  WeightBytes weights;
  // Bytes by virtual stage that the delayed weight gradients of one micro-batch need beside what
  // the stage keeps anyway.
  std::vector<int64_t> delayed_bytes;
  // FLOPs, not seconds, of each pass on one micro-batch as it is printed: the backward pass does
  // not compute again what it does not need.
  PassTimes flops;
  std::vector<MicrobatchSum> microbatch_sums;
  std::vector<bool> follows_microbatch_sum;  // by result of the step
  // W-PIPELINE-001: there are such sums; -002: calls left out. Notes.
  std::vector<Diagnostic> warnings;
  std::optional<EmittedCost> emitted;  // of the printed program, if it was asked for
};

// Rewrites `module`, whose calls must be inlined, into one SPMD program over a mesh with the axis
// `options.axis` (major) beside the module's own. Parameters and results keep their global shapes.
// `times`: times that passes are ordered by, as of a program that was printed before; null: the
// times of their instructions, without what passes store and load. In order:
//   1. find the batch dims (FindBatch) and what the step updates; write out loops over layers; hide
//      manual regions; take barriers and annotations out of the module
//   2. split the batch into micro-batches (SplitBatch); with the shifting buffer make layers alike
//   3. find phases and sums over micro-batches, then the layers (LayerGraph)
//   4. give layers to stages (BalanceStages), order passes and simulate them (MakeSchedule)
//   5. propagate the shardings of the step as it would be without a pipeline
//   6. emit the program (EmitPipeline), put manual regions back, record the schedule in the header
// Errors: E-PIPELINE-*, located where an instruction is at fault. After an error `module` is in
// between and of no further use.
Expected<PipelinePlan> PipelineModule(Module& module, const PipelineOptions& options,
                                      const PassTimes* times = nullptr);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PIPELINE_H_
