// What the three programs share: exit codes, reading and writing, how errors look.
#ifndef GSHARD_CMD_CLI_PROGRAM_H_
#define GSHARD_CMD_CLI_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/cli/flags.h"
#include "core/pass.h"
#include "ir/diagnostic.h"
#include "ir/input/module_input.h"
#include "ir/module.h"
#include "ir/source_text.h"

namespace gshard {

enum ExitCode : int {
  kExitOk = 0,
  kExitBadInput = 1,
  kExitBadUsage = 2,
  kExitCheckFailed = 3,
  kExitInternalError = 4,
};

// Prints the diagnostic to standard error; returns kExitBadInput.
int ReportError(const Diagnostic& diagnostic);
// With --json, of a program that failed: "schema" and "error" of docs/json.md on standard output.
void PrintErrorJson(const Diagnostic& diagnostic, std::string_view schema);
// The same for what is wrong with flags together; of one flag's value, throw FlagError, which names
// it. Returns kExitBadUsage.
int UsageError(const Diagnostic& diagnostic);
void ReportWarnings(std::span<const Diagnostic> diagnostics);

// Adds IN, --num-partitions, --dim and --module.
void AddInputFlags(const Command& command, std::string& input, int64_t& num_partitions);
// Adds --dim and --module, which ReadModule takes.
void AddReadFlags(const Command& command);
// What the command line says about reading programs. Throws FlagError.
InputOptions CommandInputOptions();

// Reads and parses IN ("-": standard input) and verifies it for `num_partitions` devices; 0: as
// many as it says. Notes of reading are printed, and left in `report` with what a snapshot has.
Expected<std::unique_ptr<Module>> ReadModule(const std::string& path, int64_t num_partitions = 0,
                                             InputReport* report = nullptr);
// The same of a text that is read already; each module has a context of its own.
Expected<std::unique_ptr<Module>> ReadModule(std::shared_ptr<const SourceText> source,
                                             int64_t num_partitions = 0,
                                             InputReport* report = nullptr);
// Whole file or standard input.
Expected<std::string> ReadFile(const std::string& path);
// By which processes of one build see whether they have read the same.
std::string Digest(std::string_view bytes);
// "-": standard output; "--report -" style callers pass `dash_is_stderr`.
Expected<void> WriteFile(const std::string& path, std::string_view text,
                         bool dash_is_stderr = false);

// "8GiB", "512MB", "1000" -> bytes.
Expected<int64_t> ParseByteSize(std::string_view text);
// The same of a flag's value: throws FlagError, which names the flag.
int64_t ByteSizeOf(const std::string& flag, std::string_view text);
// The same of a limit on memory; warns of a bare number so small that gibibytes were meant.
int64_t MemoryLimitOf(const std::string& flag, std::string_view text);

// A finite number of at least 0 that is a flag's value: throws FlagError.
double NumberOf(const std::string& flag, std::string_view text);

// The pass that a flag's value names: throws FlagError.
const Pass* PassOf(const std::string& flag, std::string_view name);

// "true,false" or "" (bare flag: all true).
Expected<std::vector<bool>> ParseBools(std::string_view text);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_PROGRAM_H_
