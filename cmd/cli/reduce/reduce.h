// gshard-opt reduce: the smallest program on which a command still succeeds.
#ifndef GSHARD_CMD_CLI_REDUCE_REDUCE_H_
#define GSHARD_CMD_CLI_REDUCE_REDUCE_H_

#include <cstdint>
#include <string>

#include "cmd/cli/flags.h"

namespace gshard {

struct ReduceFlags {
  std::string input, output = "-";
  int64_t num_partitions = 0;
  std::string test;  // a command of the shell
  bool verify_fails = false, crashes = false, differs_from_xla = false;
  std::string python, rtol;           // with differs_from_xla
  std::string inputs, output_inputs;  // .npz files
  int threads = 0;                    // 0: one per core
  int64_t timeout_s = 0;  // of one run of the command; 0: by what the program itself takes
};

void AddReduceFlags(const Command& command, ReduceFlags& flags);

// Returns the exit code: bad input also where the test does not hold for IN itself. Throws
// FlagError.
int RunReduce(const ReduceFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_REDUCE_REDUCE_H_
