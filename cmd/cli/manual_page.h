// The manual page of a program, in mdoc.
#ifndef GSHARD_CMD_CLI_MANUAL_PAGE_H_
#define GSHARD_CMD_CLI_MANUAL_PAGE_H_

#include <string>

#include "cmd/cli/command_tree.h"

namespace gshard {

// Section 1. `date` as in "November 26, 2026", of the release. Written at build time, `PROGRAM
// --manual`; CMake installs it.
std::string ManualPage(const CommandNode& program, const std::string& date);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_MANUAL_PAGE_H_
