// `gshard-cost diff BEFORE AFTER`.
#ifndef GSHARD_CMD_CLI_COST_DIFF_H_
#define GSHARD_CMD_CLI_COST_DIFF_H_

#include "cmd/cli/ci_output.h"
#include "cmd/cli/estimate.h"
#include "cmd/cli/flags.h"

namespace gshard {

struct CostDiffFlags {
  EstimateFlags estimate;
  std::string before, after;  // each a program or a gshard.cost document
  int64_t top = 12;
  bool json = false, markdown = false;
  std::string output = "-";
  std::string check;  // conditions on the change; empty: none
  CiFlags ci;
};

// `flags` must outlive the command line.
void AddCostDiff(CommandLine& line, CostDiffFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_COST_DIFF_H_
