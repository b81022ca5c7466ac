// gshard-opt explain: why a value is sharded as it is and which collectives it needs; or, for a
// collective of the partitioned program, why its value and its user are.
#ifndef GSHARD_CMD_CLI_EXPLAIN_H_
#define GSHARD_CMD_CLI_EXPLAIN_H_

#include <string>

#include "cmd/cli/auto.h"
#include "core/pass.h"

namespace gshard {

inline constexpr const char* kExplainSchema = "gshard.explain/1";

struct ExplainOptions {
  std::string input;
  // Of an instruction before or a collective after partitioning, with or without '%'; or a line of
  // the user's program, "gpt.py:22".
  std::string name;
  int64_t num_partitions = 0;
  bool json = false;
  bool plan = false;    // the value's choices in plans of automatic sharding, instead
  AutoFlags automatic;  // of these plans
};

// Tells what is wrong with the input, as JSON too where that is asked for; returns the exit code.
int RefuseToExplain(const ExplainOptions& options, const Diagnostic& error);

// With `plan`: searches for the best plan and prints what the value's other choices make of it.
// Else propagates with a recorder, prints the chain of causes, partitions and lists the
// collectives.
int RunExplain(const ExplainOptions& options, PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_EXPLAIN_H_
