// gshard-opt check: deadlocks and collectives that do not match, found without a run.
#ifndef GSHARD_CMD_CLI_CHECK_H_
#define GSHARD_CMD_CLI_CHECK_H_

#include <cstdint>
#include <string>

#include "cmd/cli/ci_output.h"
#include "core/pass.h"

namespace gshard {

struct CheckOptions {
  std::string input;
  int64_t num_partitions = 0;
  std::string partitioned;  // "yes", "no"; empty: found out
  bool json = false;
  CiFlags ci;
};

// Partitions IN unless it is, prints what it finds; exit code 1 if there is an error in it.
int RunCheck(const CheckOptions& options, PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_CHECK_H_
