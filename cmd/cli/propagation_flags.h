// --propagation, --allow-spmd-sharding-propagation-to-parameters and -to-output, alike wherever a
// program is propagated.
#ifndef GSHARD_CMD_CLI_PROPAGATION_FLAGS_H_
#define GSHARD_CMD_CLI_PROPAGATION_FLAGS_H_

#include <optional>
#include <string>

#include "cmd/cli/flags.h"
#include "core/propagation/propagation.h"

namespace gshard {

struct PropagationFlags {
  std::optional<std::string> mode;
  std::string to_parameters, to_output;  // "": as the text says
};

void AddPropagationFlags(const Command& command, PropagationFlags& flags);
// Throws FlagError.
void ReadPropagationFlags(const PropagationFlags& flags, PropagationOptions& options);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_PROPAGATION_FLAGS_H_
