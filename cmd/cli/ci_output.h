// The flags with which a command tells systems of continuous integration what it has checked, and
// the writing of it: --github, --junit, --sarif. docs/ci.md.
#ifndef GSHARD_CMD_CLI_CI_OUTPUT_H_
#define GSHARD_CMD_CLI_CI_OUTPUT_H_

#include <string>

#include "cmd/cli/flags.h"
#include "core/report/ci/ci_report.h"

namespace gshard {

struct CiFlags {
  bool github = false;
  std::string junit, sarif;  // files; empty: not wanted

  bool AreGiven() const { return github || !junit.empty() || !sarif.empty(); }
};

void AddCiFlags(const Command& command, CiFlags& flags);

// Writes what the flags ask for. Annotations go to standard error, where GitHub finds them as well,
// so that a report on standard output stays whole. Places are relative to GITHUB_WORKSPACE,
// CI_PROJECT_DIR or the current folder.
Expected<void> WriteCiReport(const CiFlags& flags, CiReport report);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_CI_OUTPUT_H_
