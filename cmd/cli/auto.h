// `gshard-opt auto IN --mesh data=8,model=4`: flags and run.
#ifndef GSHARD_CMD_CLI_AUTO_H_
#define GSHARD_CMD_CLI_AUTO_H_

#include <string>
#include <vector>

#include "cmd/cli/estimate.h"
#include "cmd/cli/flags.h"
#include "core/autoshard/auto_sharding.h"

namespace gshard {

struct AutoFlags {
  std::string input, output = "-";
  EstimateFlags estimate;
  std::string mesh, limit, keep = "io", zero = "auto", remat = "auto", time_limit = "60s";
  std::string within = "0.5";
  std::vector<std::string> fixed, freed;
  std::string stages, microbatches, schedules;
  int64_t devices = 0, evaluations = 0, top = 10;
  int threads = 0;
  std::string report, html, write_rules, write_plans;
};

void AddAutoFlags(const Command& command, AutoFlags& flags);

// Which plans may be and how many are priced: what auto and explain --plan share.
void AddPlanFlags(const Command& command, AutoFlags& flags);

// Throws FlagError. `chip`: as flags.estimate.chip says.
autoshard::AutoOptions AutoOptionsOf(const AutoFlags& flags, Chip chip);

int RunAuto(const AutoFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_AUTO_H_
