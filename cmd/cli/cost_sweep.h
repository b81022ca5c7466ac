// `gshard-cost sweep IN --mesh data=2..64,model=2..32 --stages 1..8 --microbatches 8..32 --batch
// 64..512`.
#ifndef GSHARD_CMD_CLI_COST_SWEEP_H_
#define GSHARD_CMD_CLI_COST_SWEEP_H_

#include <string>
#include <vector>

#include "cmd/cli/estimate.h"
#include "cmd/cli/flags.h"
#include "cmd/cli/pipeline.h"

namespace gshard {

struct CostSweepFlags {
  std::string input;
  EstimateFlags estimate;
  std::string mesh, rules_file, limit;
  std::vector<std::string> shards;
  std::string stages, microbatches, schedules = "1f1b";
  PipelineFlags pipeline;  // pipeline.batch: sizes of the batch, too
  int64_t devices = 0;
  int threads = 0;
  bool json = false, markdown = false;
  std::string output = "-", html;
};

// `flags` must outlive the command line.
void AddCostSweep(CommandLine& line, CostSweepFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_COST_SWEEP_H_
