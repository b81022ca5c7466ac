// What the three programs share: exit codes, reading and writing, how errors look.
#ifndef GSHARD_CMD_CLI_PROGRAM_H_
#define GSHARD_CMD_CLI_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/module.h"

// CLI11 is large: only the files that define flags include it.
namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace gshard {

enum ExitCode : int {
  kExitOk = 0,
  kExitBadInput = 1,
  kExitBadUsage = 2,
  kExitCheckFailed = 3,
  kExitInternalError = 4,
};

// Parses flags and runs `body`; maps everything that can go wrong to an exit code. Usage errors
// print one line and a pointer to --help; internal errors say that they are ours and how to report
// them.
int RunProgram(CLI::App& app, int argc, char** argv, const std::function<int()>& body);

// Prints the diagnostic to standard error; returns kExitBadInput.
int ReportError(const Diagnostic& diagnostic);
// The same for what is wrong with a flag; returns kExitBadUsage.
int UsageError(const Diagnostic& diagnostic);
void ReportWarnings(std::span<const Diagnostic> diagnostics);

// Reads and parses IN ("-": standard input) and verifies it.
Expected<std::unique_ptr<Module>> ReadModule(const std::string& path, bool verify = true);
// Whole file or standard input.
Expected<std::string> ReadFile(const std::string& path);
// "-": standard output; "--report -" style callers pass `dash_is_stderr`.
Expected<void> WriteFile(const std::string& path, std::string_view text,
                         bool dash_is_stderr = false);

// A count between the two, without a word about them in --help.
CLI::Validator Between(int64_t least, int64_t most);

// "8GiB", "512MB", "1000" -> bytes.
Expected<int64_t> ParseByteSize(std::string_view text);

// "true,false" or "" (bare flag: all true).
Expected<std::vector<bool>> ParseBools(std::string_view text);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_PROGRAM_H_
