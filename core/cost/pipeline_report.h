// A program that runs in stages: what each stage does in each clock tick, and what that wastes.
//
// A pipeline is a loop over ticks with a conditional on the device's stage (core/cost/
// branched_loop.h), as `gshard-opt pipeline` prints it and as one may write it by hand. Stages hand
// values on at the end of a tick: those that exchange values then wait for each other. Of a
// shifting buffer the loops have no branch (shift_pipeline.h).
#ifndef GSHARD_CORE_COST_PIPELINE_REPORT_H_
#define GSHARD_CORE_COST_PIPELINE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cost/memory/peak_memory.h"
#include "core/cost/step_model.h"
#include "ir/module.h"

namespace gshard {

// A branch of a conditional; of a shifting buffer a turn of its loop, on a micro-batch or on
// padding.
struct PipelinePass {
  const Computation* computation = nullptr;
  size_t choice = 0;     // which of its conditional's branches it is
  double time_s = 0;     // with the collectives inside that compute waits for
  bool is_idle = false;  // it does no arithmetic
  // is_shift: it belongs to a shifting buffer. Only then: is_padding: it computes on padding, not
  // on a micro-batch; is_backward: it belongs to the backward loop.
  bool is_shift = false, is_padding = false, is_backward = false;
};

// Devices that take the same passes in all ticks. Figures are of one device and one step.
struct PipelineStage {
  std::vector<int64_t> devices;
  double busy_s = 0;         // in passes, without idle ones
  double recompute_s = 0;    // part of busy_s: recomputation
  double exposed_s = 0;      // part of busy_s: waits for collectives within passes
  double idle_s = 0;         // waits for other stages, or computes on padding
  double flops = 0;          // on micro-batches
  double padding_flops = 0;  // on padding; not among `flops`
  double sent_bytes = 0;     // in passes and between ticks
  int64_t peak_bytes = 0;    // of memory, of passes that the stage runs
};

struct PipelineTick {
  const Instruction* conditional = nullptr;
  double start_s = 0, end_s = 0;    // since the first tick, passes alone: first start, last end
  std::vector<double> stage_s;      // by stage: when its pass starts
  std::vector<size_t> pass;         // by stage: index into PipelineReport::passes
  std::vector<int64_t> microbatch;  // by stage, -1: padding; empty: not known
};

struct PipelineReport {
  const Instruction* loop = nullptr;
  // As the header's gshard.pipeline says; 0 and empty where there is none.
  int64_t header_stages = 0, repeats = 0, microbatches = 0;
  std::string schedule;
  bool is_shift = false;  // a shifting buffer: no branches, idle time is spent on padding
  // Idle share if transfers took no time and stages waited for nothing else (the header's).
  std::optional<double> planned_bubble;

  std::vector<PipelinePass> passes;
  std::vector<PipelineStage> stages;
  std::vector<PipelineTick> ticks;
  double span_s = 0;      // passes, from the first tick to the last
  double transfer_s = 0;  // what the loop takes beyond it: permutes, buffers
  // Sum of the idle seconds of all devices, divided by (number of devices x span_s).
  double bubble_share = 0;
  double recompute_share = 0;          // recompute_s over busy_s, sums over devices
  double imbalance = 1;                // busy_s of the busiest stage over the mean
  double padding_recompute_flops = 0;  // of padding_flops, mean over devices: names say recompute

  // Mean over devices, of the pipeline's passes: on micro-batches, and on padding.
  double FlopsPerDevice() const;
  double PaddingFlopsPerDevice() const;
};

// Describes the shifting buffer that the header speaks of, else the loop with the most ticks' time
// whose devices differ; returns nothing if there is none. `model` has the costs of `module`; `mesh`
// is its MainMesh, or null.
std::optional<PipelineReport> DescribePipeline(const Module& module, const Mesh* mesh,
                                               StepModel& model);

// `memory` is PeakMemory's, by the same `kernels`; each stage has the peak of devices that run its
// passes only.
void EstimateMemory(const Module& module, MemoryOptions options, ModuleKernels& kernels,
                    PipelineReport& report, MemoryReport& memory);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_PIPELINE_REPORT_H_
