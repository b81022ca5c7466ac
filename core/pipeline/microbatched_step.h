// The step that a pipelined program was made of, as its micro-batches compute it, without stages.
//
// Where sums over a micro-batch return to its examples (W-PIPELINE-001), a pipelined program is
// another function than the step on the whole batch. What it is to compute follows from the step
// itself and from how its batch is split: the step is split anew here, and nothing is taken from
// the pipelined program but the number of micro-batches and the dims that count examples.
#ifndef GSHARD_CORE_PIPELINE_MICROBATCHED_STEP_H_
#define GSHARD_CORE_PIPELINE_MICROBATCHED_STEP_H_

#include <string_view>
#include <vector>

#include "core/pipeline/pipeline.h"
#include "ir/module.h"

namespace gshard::pipeline {

// The words of kPipelineAttribute that say how the batch was split.
struct BatchSplit {
  int64_t microbatches = 1;
  int64_t microbatch_sums = -1;  // -1: the text does not tell
  struct Examples {
    int64_t parameter = 0, dimension = 0, shards = 1;
  };
  std::vector<Examples> examples;  // empty: the text does not tell
};
// Of a text that is damaged what can be read.
BatchSplit ReadBatchSplit(std::string_view attribute);

struct MicrobatchedStep {
  int64_t microbatches = 1;
  std::vector<MicrobatchSum> sums;  // none: the step means the same on the whole batch
  std::vector<bool> follows_sum;    // by leaf of the result
};

// Rewrites `step`, as the user wrote it, into one program for one device: a loop over micro-batches
// between what is computed once before and after them. Parameters and results keep their shapes.
// Errors: E-PIPELINE-*, and those of the passes that inline calls.
Expected<MicrobatchedStep> MakeMicrobatchedStep(Module& step, const BatchSplit& split);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_MICROBATCHED_STEP_H_
