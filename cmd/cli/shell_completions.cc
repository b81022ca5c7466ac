// See shell_completions.h.

#include "cmd/cli/shell_completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace gshard {
namespace {

std::string FunctionName(const std::string& program) {
  std::string name = "_" + program;
  std::ranges::replace(name, '-', '_');
  return name;
}

// Text between single quotes, as all three shells read it; fish wants backslashes doubled as well.
std::string Quoted(const std::string& text, bool for_fish = false) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += for_fish ? "\\'" : "'\\''";
    } else {
      if (c == '\\' && for_fish) quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

// What a list of choices needs: the first sentence of a help text.
std::string Brief(const std::string& help) {
  return help.substr(0, std::min({help.find(" ("), help.find(": "), help.find("; "), help.size()}));
}

// All names of the flags of a command, blanks between them.
std::string FlagNames(const CommandNode& command) {
  std::string names;
  for (const CommandFlag& flag : command.flags) {
    if (flag.is_positional) continue;
    for (const std::string& name : flag.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

// The commands that there are, the program itself with an empty name.
void ForEachCommand(const CommandNode& program,
                    const std::function<void(const std::string&, const CommandNode&)>& visit) {
  visit("", program);
  for (const CommandNode& command : program.subcommands) visit(command.name, command);
}

// Branches of a case over "COMMAND FLAG": values that a flag takes. Files are the shell's business.
std::string BashValues(const CommandNode& program) {
  std::string cases;
  ForEachCommand(program, [&](const std::string& command, const CommandNode& node) {
    for (const CommandFlag& flag : node.flags) {
      if (flag.is_positional || flag.value.empty() || flag.TakesFile()) continue;
      std::string patterns;
      for (const std::string& name : flag.names) {
        if (!patterns.empty()) patterns += "|";
        patterns += fmt::format("\"{} {}\"", command, name);
      }
      // Bare flags are followed by something else, unless there is an equals sign.
      const char* only = flag.value_is_optional ? "[[ $equals ]] && " : "";
      if (flag.choices.empty() && flag.value_is_optional) continue;
      cases += flag.choices.empty()
                   ? fmt::format("    {}) compopt +o default; return ;;\n", patterns)
                   : fmt::format("    {}) {}{{ words=\"{}\"; only=1; }} ;;\n", patterns, only,
                                 fmt::join(flag.choices, " "));
    }
  });
  return cases;
}

}  // namespace

std::string BashCompletions(const CommandNode& program) {
  std::string commands, flags, names;
  for (const CommandNode& command : program.subcommands) {
    commands += (commands.empty() ? "" : "|") + command.name;
    names += " " + command.name;
  }
  ForEachCommand(program, [&](const std::string& command, const CommandNode& node) {
    flags += fmt::format("    \"{}\") words=\"{}\" ;;\n", command, FlagNames(node));
  });
  const std::string find_command = commands.empty()
                                       ? ""
                                       : fmt::format(R"(  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "${{COMP_WORDS[i]}}" in
      {}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
)",
                                                     commands);
  const std::string name_commands =
      commands.empty()
          ? ""
          : fmt::format("  [[ -z $command && $cur != -* && $COMP_CWORD -eq 1 ]] && words=\"{}\"\n",
                        names.substr(1));
  return fmt::format(R"(# Completions of {0} for bash, made by `{0} --completions bash`.
{1}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command="" words="" only="" equals="" i
  if [[ $cur == "=" ]]; then
    cur="" equals=1
  elif [[ $prev == "=" ]]; then
    prev=${{COMP_WORDS[COMP_CWORD-2]}} equals=1
  fi
{2}  case "$command $prev" in
{3}    *) ;;
  esac
  if [[ -z $only && $cur == -* ]]; then
    case "$command" in
{4}    esac
  fi
{5}  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o bashdefault -o default -F {1} {0}
)",
                     program.name, FunctionName(program.name), find_command, BashValues(program),
                     flags, name_commands);
}

namespace {

// Brackets and colons end the parts of a specification of _arguments.
std::string ZshText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ZshAction(const CommandFlag& flag) {
  if (!flag.choices.empty()) return fmt::format("({})", fmt::join(flag.choices, " "));
  return flag.TakesFile() ? "_files" : " ";
}

std::string ZshArguments(const CommandNode& command) {
  std::string specs;
  for (const CommandFlag& flag : command.flags) {
    const std::string value = fmt::format(":{}:{}", ZshText(flag.value), ZshAction(flag));
    if (flag.is_positional) {
      specs += " \\\n      " + Quoted(value);
      continue;
    }
    const std::string help = fmt::format("[{}]", ZshText(Brief(flag.help)));
    for (const std::string& name : flag.names) {
      // "--flag=VALUE" and "--flag VALUE"; of optional values the first only.
      std::string spec = "*" + name;
      if (!flag.value.empty() && name.starts_with("--"))
        spec += flag.value_is_optional ? "=-" : "=";
      spec += help;
      if (!flag.value.empty()) spec += (flag.value_is_optional ? ":" : "") + value;
      specs += " \\\n      " + Quoted(spec);
    }
  }
  return "_arguments -S" + specs;
}

}  // namespace

std::string ZshCompletions(const CommandNode& program) {
  std::string text =
      fmt::format("#compdef {0}\n# Completions of {0} for zsh, made by `{0} --completions zsh`.\n",
                  program.name);
  if (program.subcommands.empty()) return text + ZshArguments(program) + "\n";
  std::string commands, cases;
  for (const CommandNode& command : program.subcommands) {
    commands += fmt::format("    {}\n", Quoted(command.name + ":" + command.description));
    cases += fmt::format("  {})\n    shift words\n    (( CURRENT-- ))\n    {}\n    ;;\n",
                         command.name, ZshArguments(command));
  }
  text += fmt::format(
      "local -a commands=(\n{})\nif (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "  _describe -t commands subcommand commands{}\n  return\nfi\n",
      commands, program.runs_alone ? "\n  _files" : "");
  return text + fmt::format("case $words[2] in\n{}  *)\n    {}\n    ;;\nesac\n", cases,
                            ZshArguments(program));
}

std::string FishCompletions(const CommandNode& program) {
  std::string text = fmt::format(
      "# Completions of {0} for fish, made by `{0} --completions fish`.\n", program.name);
  const bool has_commands = !program.subcommands.empty();
  for (const CommandNode& command : program.subcommands) {
    text += fmt::format("complete -c {} -n __fish_use_subcommand {}-a {} -d {}\n", program.name,
                        program.runs_alone ? "" : "-f ", command.name,
                        Quoted(command.description, /*for_fish=*/true));
  }
  ForEachCommand(program, [&](const std::string& command, const CommandNode& node) {
    std::string condition;
    if (!command.empty()) {
      condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command);
    } else if (has_commands) {
      condition = " -n __fish_use_subcommand";
    }
    for (const CommandFlag& flag : node.flags) {
      if (flag.is_positional) continue;
      text += fmt::format("complete -c {}{}", program.name, condition);
      for (const std::string& name : flag.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!flag.value.empty() && !flag.value_is_optional) text += flag.TakesFile() ? " -r" : " -x";
      if (!flag.choices.empty()) {
        text +=
            fmt::format(" -a {}", Quoted(fmt::format("{}", fmt::join(flag.choices, " ")), true));
      }
      text += fmt::format(" -d {}\n", Quoted(Brief(flag.help), /*for_fish=*/true));
    }
  });
  return text;
}

}  // namespace gshard
