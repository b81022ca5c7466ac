// gshard-opt explain FILE:LINE: the values and collectives that come from a line of the user's
// program.
#ifndef GSHARD_CMD_CLI_EXPLAIN_SOURCE_H_
#define GSHARD_CMD_CLI_EXPLAIN_SOURCE_H_

#include "cmd/cli/explain.h"
#include "core/pass.h"
#include "ir/module.h"
#include "ir/source_lines.h"

namespace gshard {

// Of a module that is propagated and partitioned for it, or of a program of one device as it is.
int ExplainSourceLine(const ExplainOptions& options, SourceLine asked, Module& module,
                      PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_EXPLAIN_SOURCE_H_
