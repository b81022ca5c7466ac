// What a shell offers where Tab is pressed: subcommands, flags, their values, files.
#ifndef GSHARD_CMD_CLI_SHELL_COMPLETIONS_H_
#define GSHARD_CMD_CLI_SHELL_COMPLETIONS_H_

#include <string>

#include "cmd/cli/command_tree.h"

namespace gshard {

// Scripts of the shells: for bash (4 and newer, without the package bash-completion), zsh (a file
// of site-functions) and fish (a file of vendor_completions.d). Written at build time, `PROGRAM
// --completions SHELL`; CMake installs them.
std::string BashCompletions(const CommandNode& program);
std::string ZshCompletions(const CommandNode& program);
std::string FishCompletions(const CommandNode& program);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_SHELL_COMPLETIONS_H_
