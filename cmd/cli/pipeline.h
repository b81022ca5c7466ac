// `gshard-opt pipeline`: flags and run.
#ifndef GSHARD_CMD_CLI_PIPELINE_H_
#define GSHARD_CMD_CLI_PIPELINE_H_

#include <string>
#include <vector>

#include "cmd/cli/session.h"
#include "core/pipeline/plan/options.h"

namespace gshard {

struct PipelineFlags {
  int64_t stages = 0, microbatches = 0, repeats = 0;
  std::string schedule = "1f1b", axis = "stage", cut, balance = "cost", remat, weights = "sharded",
              chip = "tpu-v3", chip_file, limit, report;
  std::vector<std::string> batch;
};

inline constexpr const char* kPipelineDescription =
    "Cut a training step into stages that work on micro-batches";

void AddPipelineFlags(const Command& command, PipelineFlags& flags);
// Those that say how stages are cut, whatever their number.
void AddStageFlags(const Command& command, PipelineFlags& flags);
// `sweeps`: --batch takes sizes, too.
void AddBatchFlag(const Command& command, PipelineFlags& flags, bool sweeps = false);
Expected<pipeline::PipelineOptions> ReadPipelineFlags(const PipelineFlags& flags);
int RunPipeline(SessionOptions& session, PassContext& context, const PipelineFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_PIPELINE_H_
