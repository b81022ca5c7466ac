// One run of gshard-opt over one input: read, passes, print, with timing.
#ifndef GSHARD_CMD_CLI_SESSION_H_
#define GSHARD_CMD_CLI_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/cli/flags.h"
#include "core/pass.h"
#include "ir/printer.h"

namespace gshard {

struct SessionOptions {
  std::string input;
  std::string output = "-";
  int64_t num_partitions = 0;  // 0: from the module
  PrintOptions print;
  std::string format = "hlo";  // or "stablehlo"
  bool gspmd = false;          // of StableHLO: shardings as mhlo.sharding
  std::string time_passes;     // "table": on standard error; else JSON to that file; "": none
  int repeat = 1;
  std::string print_after;
  bool print_after_all = false;
  bool verify_each = false;
};

// Adds IN, -o, --num-partitions and the flags every subcommand has.
void AddSessionFlags(const Command& command, SessionOptions& options);

// What a subcommand does to the module between reading and printing. An error that it returns ends
// the run: RunSession prints it and returns kExitBadInput.
using SessionBody = std::function<Expected<void>(Module& module, PassContext& context,
                                                 const PassManagerOptions& options,
                                                 std::vector<PassTiming>& timings)>;

// Reads, verifies, runs `body`, prints; `repeat` times, each from a fresh parse (reported times are
// medians). Returns the exit code.
int RunSession(const SessionOptions& options, PassContext& context, const SessionBody& body);

// The same for a body that puts another module in the place of the one it is given.
using ReplacingBody = std::function<Expected<void>(
    std::unique_ptr<Module>& module, PassContext& context, const PassManagerOptions& options,
    std::vector<PassTiming>& timings)>;
int RunReplacingSession(const SessionOptions& options, PassContext& context,
                        const ReplacingBody& body);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_SESSION_H_
