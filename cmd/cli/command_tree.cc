// See command_tree.h.

#include "cmd/cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "cmd/cli/flags.h"

namespace gshard {
namespace {

constexpr std::string_view kExample = "Example: ";

std::string OnOneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// "FILE" of "FILE" and of "[=FILE]".
std::string ValueText(const CLI::Option& option, bool& is_optional) {
  std::string text = option.get_option_text();
  is_optional = text.starts_with("[=");
  return is_optional ? text.substr(2, text.size() - 3) : text;
}

CommandFlag Describe(const CLI::Option& option) {
  CommandFlag flag;
  flag.is_positional = option.get_positional();
  if (flag.is_positional) {
    flag.names = {option.get_name(/*positional=*/true)};
  } else {
    for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  }
  flag.value = ValueText(option, flag.value_is_optional);
  flag.choices = ChoicesOf(&option);
  flag.help = OnOneLine(option.get_description());
  return flag;
}

}  // namespace

CommandNode DescribeCommand(const CLI::App& app) {
  CommandNode node;
  node.name = app.get_name();
  // A program tells its example in its description, a subcommand in its footer.
  const std::string text = app.get_description() + "\n" + app.get_footer();
  node.description = text.substr(0, text.find('\n'));
  if (const size_t at = text.find(kExample); at != text.npos) {
    const std::string rest = text.substr(at + kExample.size());
    node.example = rest.substr(0, rest.find('\n'));
  }
  for (const CLI::Option* option : app.get_options()) node.flags.push_back(Describe(*option));
  std::stable_partition(node.flags.begin(), node.flags.end(),
                        [](const CommandFlag& flag) { return flag.is_positional; });
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.subcommands.push_back(DescribeCommand(*sub));
  }
  node.runs_alone = node.subcommands.empty() || node.HasPositional();
  return node;
}

}  // namespace gshard
