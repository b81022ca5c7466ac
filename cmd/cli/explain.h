// gshard-opt explain: why a value is sharded as it is and which collectives it needs; or, for a
// collective of the partitioned program, why its value and its user are.
#ifndef GSHARD_CMD_CLI_EXPLAIN_H_
#define GSHARD_CMD_CLI_EXPLAIN_H_

#include <string>

#include "core/pass.h"

namespace gshard {

struct ExplainOptions {
  std::string input;
  std::string
      name;  // of an instruction before or a collective after partitioning, with or without '%'
  int64_t num_partitions = 0;
  bool json = false;
};

// Propagates with a recorder, prints the chain of causes, partitions and lists the collectives.
int RunExplain(const ExplainOptions& options, PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_EXPLAIN_H_
