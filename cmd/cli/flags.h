// Command lines: flags and subcommands of a program, bound to the variables they fill. It hides the
// library (CLI11, in flags.cc and command_tree.cc only), whose templates take seconds in each file
// that sees them.
#ifndef GSHARD_CMD_CLI_FLAGS_H_
#define GSHARD_CMD_CLI_FLAGS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/diagnostic.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gshard {

// What is wrong with the value of a flag, found after parsing: one line and exit code 2.
class FlagError : public std::runtime_error {
 public:
  FlagError(const std::string& flag, const std::string& problem)
      : std::runtime_error(flag + ": " + problem) {}
  FlagError(const std::string& flag, const Diagnostic& problem)
      : FlagError(flag,
                  problem.hint.empty() ? problem.message : problem.message + "; " + problem.hint) {}
};

// What a flag takes besides the type of its variable.
struct FlagTraits {
  std::string type = {};  // of the value, in --help: FILE, SIZE, REGEX
  bool required = false;
  // Where it is there, "--flag" alone is "--flag=bare", and a value stands behind "=" only; of
  // std::string variables.
  std::optional<std::string> bare = {};
  std::vector<std::string> one_of = {};
  std::optional<std::pair<int64_t, int64_t>> between = {};  // both included
  bool is_output = false;       // a file, which ClaimOutput is told; "-" is standard output
  bool dash_is_stderr = false;  // of outputs: "-" is standard error
};

// `path` ("-" and "": nothing) is written for `flag`. Throws FlagError if it is another flag's
// file.
void ClaimOutput(const std::string& flag, const std::string& path);

// The values that an option takes, or some of them, as far as they were told; empty: any.
std::vector<std::string> ChoicesOf(const CLI::Option* option);

// A program's command line or a subcommand's. The variables must outlive it.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  // A flag with a value, or, without leading dashes, a positional argument. `T` is std::string,
  // int, int64_t or uint64_t, an optional string (set if the flag is there), or a vector of strings
  // (the flag may be given many times).
  template <typename T>
  void Add(const std::string& names, T& value, const std::string& help,
           const FlagTraits& traits = {}) const;

  // Sets `value`; cannot be given together with one of the flags `excluded`.
  void AddSwitch(const std::string& names, bool& value, const std::string& help,
                 const std::vector<std::string>& excluded = {}) const;
  // Calls `add`. The flags that it adds say nothing unless one of `others` is given, too: to give
  // them without is bad usage.
  void AddOnlyWith(const std::vector<std::string>& others, const std::function<void()>& add) const;
  // Clears `value`.
  void AddOffSwitch(const std::string& names, bool& value, const std::string& help) const;
  // Values that shells offer for a flag that takes others, too.
  void Suggest(const std::string& name, std::vector<std::string> values) const;
  // "--flag" alone gives `value` the text `bare`, "--flag=TEXT" one of `texts`.
  void AddChoice(const std::string& name, const std::string& bare, std::string& value,
                 const std::string& help, const std::vector<std::string>& texts) const;

 protected:
  CLI::App* app_;
};

// Owns what the Commands of a program refer to.
class CommandLine : public Command {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `run` is what Run calls if it is this one; one of the subcommands must be given unless Run has
  // something to call without one. The example is a whole command line. `add_flags` is called if
  // the command line has the subcommand: to add the flags of all takes longer than to read a small
  // program.
  void AddSubcommand(const std::string& name, const std::string& description,
                     const std::string& example, std::function<int()> run,
                     std::function<void(const Command&)> add_flags);

  // Lines that --version prints behind the program's own.
  void AddVersionText(const std::string& text);

  // Parses the arguments and calls the chosen subcommand's function, else `run`. "help", "help
  // SUBCOMMAND" and "SUBCOMMAND help" are --help in words. Maps everything that can go wrong to an
  // exit code (ExitCode in program.h): usage errors print one line and a pointer to --help;
  // internal errors say that they are ours and how to report them.
  // "--completions bash|zsh|fish" and "--manual", each alone, print what is made of the flags for
  // shells and manuals; the build calls them.
  // A pipe that this writes to is marked if it fails (cmd/cli/failed_pipe.h).
  int Run(int argc, char** argv, const std::function<int()>& run = nullptr);

 private:
  int RunChosen(int argc, char** argv, const std::function<int()>& run);
  int PrintDescription(const std::string& form);

  std::unique_ptr<CLI::App> owned_;
  std::function<int()> chosen_;
  std::vector<std::function<void()>> add_subcommand_flags_;
};

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_FLAGS_H_
