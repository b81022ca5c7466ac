// From a training step to a pipelined one (docs/pipelining.md; GPipe, Huang et al. 2019; GSPMD
// paper, section 3.3).
#ifndef GSHARD_CORE_PIPELINE_PIPELINE_H_
#define GSHARD_CORE_PIPELINE_PIPELINE_H_

#include <string>
#include <vector>

#include "core/pipeline/layers.h"
#include "core/pipeline/options.h"
#include "core/pipeline/schedule.h"

namespace gshard::pipeline {

// Frontend attribute of the header that says how a program is pipelined: "stages=8 repeats=1
// microbatches=32 schedule=1f1b bubble=0.193989", bubble by the cost model's times.
inline constexpr std::string_view kPipelineAttribute = "gshard.pipeline";

// What was decided, for reports.
struct PipelinePlan {
  PipelineOptions options;
  int64_t batch = 0;
  std::vector<Layer> layers;
  std::vector<int64_t> first_layers;  // of each virtual stage
  Schedule schedule;
  Simulation simulation;             // by the cost model's times
  std::vector<Diagnostic> warnings;  // W-PIPELINE-*
};

// Rewrites `module`, whose calls must be inlined, into one SPMD program over a mesh with the axis
// `options.axis` (major) beside the module's own. Parameters and results keep their global shapes.
// Errors: E-PIPELINE-*, located where an instruction is at fault.
Expected<PipelinePlan> PipelineModule(Module& module, const PipelineOptions& options);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PIPELINE_H_
