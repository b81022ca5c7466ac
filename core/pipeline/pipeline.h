// From a training step to a pipelined one (docs/pipelining.md; GPipe, Huang et al. 2019; GSPMD
// paper, section 3.3).
#ifndef GSHARD_CORE_PIPELINE_PIPELINE_H_
#define GSHARD_CORE_PIPELINE_PIPELINE_H_

#include <string>
#include <vector>

#include "core/pipeline/emit/emission.h"
#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/options.h"
#include "core/pipeline/plan/schedule.h"

namespace gshard::pipeline {

// Frontend attribute of the header that says how a program is pipelined, words KEY=VALUE: "stages=8
// repeats=1 microbatches=32 schedule=1f1b bubble=0.193989 remat=stage recompute=0.24 imbalance=1.05
// useful_flops=1.2e9 executed_flops=1.2e9 forward_s=1e-3,1e-3,.. recompute_s=.. backward_s=..
// weights_s=.. layers=18 first_layers=0,3,.. cuts=gather.1,dot.7,.. batch=93:0:4,94:0:4
// microbatch_sums=0". first_layers and cuts are the first layer of each virtual stage, and that
// layer's first instruction; batch is the parameters that hold examples, each with the dim that
// counts them and the shards of that dim; microbatch_sums counts those of W-PIPELINE-001. Times are
// the cost model's, lists by virtual stage (shift: the layers before and after are the first and
// the last); the rest as in WorkSummary.
inline constexpr std::string_view kPipelineAttribute = "gshard.pipeline";

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
  PassTimes times;        // of virtual stages, by the cost model
  Simulation simulation;  // by these times
  WeightBytes weights;
  // By virtual stage: what a micro-batch's put off gradients of weights need beside what the stage
  // keeps anyway.
  std::vector<int64_t> delayed_bytes;
  // Of a pass of each virtual stage as it is printed: what the backward pass does not need it does
  // not compute again.
  PassTimes flops;
  std::vector<MicrobatchSum> microbatch_sums;
  std::vector<bool> follows_microbatch_sum;  // by result of the step
  std::vector<Diagnostic> warnings;          // W-PIPELINE-001: there are such sums
};

// Rewrites `module`, whose calls must be inlined, into one SPMD program over a mesh with the axis
// `options.axis` (major) beside the module's own. Parameters and results keep their global shapes.
// Errors: E-PIPELINE-*, located where an instruction is at fault.
Expected<PipelinePlan> PipelineModule(Module& module, const PipelineOptions& options);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PIPELINE_H_
