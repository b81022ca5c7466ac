// A program's command line as data: what completions (shell_completions.h) and the manual page
// (manual_page.h) are made from, so that they say what --help says.
#ifndef GSHARD_CMD_CLI_COMMAND_TREE_H_
#define GSHARD_CMD_CLI_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace gshard {

struct CommandFlag {
  std::vector<std::string> names;    // "-o", "--output"; of a positional argument "IN"
  std::string value;                 // what it is: "FILE", "SIZE", "a|b"; empty: a switch
  bool value_is_optional = false;    // "--verify" or "--verify=outputs"
  std::vector<std::string> choices;  // values there are, or some of them; empty: any
  std::string help;                  // one paragraph without line breaks
  bool is_positional = false;

  bool TakesFile() const { return value.find("FILE") != std::string::npos; }
  // "--output", or the only name.
  const std::string& LongName() const { return names.back(); }
};

struct CommandNode {
  std::string name;                // "gshard-opt", "print"
  std::string description;         // one line
  std::string example;             // a whole command line
  std::vector<CommandFlag> flags;  // positional arguments first
  std::vector<CommandNode> subcommands;
  bool runs_alone = true;  // does something without a subcommand

  bool HasPositional() const { return !flags.empty() && flags.front().is_positional; }
};

// Of an app whose subcommands have all their flags.
CommandNode DescribeCommand(const CLI::App& app);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_COMMAND_TREE_H_
