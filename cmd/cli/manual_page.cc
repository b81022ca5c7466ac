// See manual_page.h.

#include "cmd/cli/manual_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace gshard {
namespace {

constexpr size_t kWidth = 78;  // mandoc -T lint tells of longer lines

constexpr std::array<std::pair<int, std::string_view>, 6> kExitCodes = {{
    {0, "ok"},
    {1, "bad input"},
    {2, "bad usage"},
    {3, "a check or limit failed"},
    {4, "internal error"},
    {130, "ended by Ctrl-C"},
}};

// A word of text: backslashes and hyphens as they are, no macro where a line begins.
std::string Word(std::string_view word) {
  std::string text;
  if (word.starts_with('.') || word.starts_with('\'')) text += "\\&";
  for (const char c : word) {
    if (c == '\\') {
      text += "\\e";
    } else if (c == '-') {
      text += "\\-";
    } else {
      text += c;
    }
  }
  return text;
}

bool EndsSentence(std::string_view word) {
  while (word.ends_with(')') || word.ends_with('"') || word.ends_with('\'')) word.remove_suffix(1);
  return word.ends_with('.') || word.ends_with('?') || word.ends_with('!');
}

// Lines of at most kWidth; a new sentence begins a new line.
std::string Paragraph(std::string_view text) {
  std::string lines, line;
  auto end_line = [&] {
    if (!line.empty()) lines += line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string word = Word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (line.size() + 1 + word.size() > kWidth) end_line();
    line += (line.empty() ? "" : " ") + word;
    if (EndsSentence(word)) end_line();
  }
  end_line();
  return lines;
}

// An argument of a macro: one word even with blanks in it, no punctuation or macro of its own.
std::string Argument(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\\') {
      quoted += "\\e";
    } else if (c == '"') {
      quoted += "\"\"";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// ".It Fl o , Fl -output Ar FILE"
std::string FlagItem(const CommandFlag& flag) {
  std::string item = ".It";
  if (flag.is_positional) return item + " Ar " + flag.names.front() + "\n";
  for (size_t i = 0; i < flag.names.size(); ++i) {
    item += (i > 0 ? " , " : " ") + ("Fl " + flag.names[i].substr(1));
  }
  if (flag.value_is_optional) {
    item += " Ns Op = Ns Ar " + Argument(flag.value);
  } else if (!flag.value.empty()) {
    item += " Ar " + Argument(flag.value);
  }
  return item + "\n";
}

std::string Flags(const CommandNode& command) {
  std::string list = ".Bl -tag -width Ds\n";
  for (const CommandFlag& flag : command.flags) {
    list += FlagItem(flag) + Paragraph(flag.help);
    if (!flag.choices.empty() && flag.value.find('|') == std::string::npos) {
      std::string values = "Values: ";
      for (const std::string& choice : flag.choices) values += choice + ", ";
      values.replace(values.size() - 2, 2, ".");
      list += Paragraph(values);
    }
  }
  return list + ".El\n";
}

std::string Example(const CommandNode& command) {
  return command.example.empty() ? "" : ".Pp\n.Dl " + Word(command.example) + "\n";
}

std::string Synopsis(const CommandNode& program) {
  std::string text;
  if (program.runs_alone) {
    text += ".Nm\n.Op Ar option ...\n";
    for (const CommandFlag& flag : program.flags) {
      if (flag.is_positional) text += ".Ar " + flag.names.front() + "\n";
    }
  }
  for (const CommandNode& command : program.subcommands) {
    text += fmt::format(".Nm\n.Cm {}\n.Op Ar option ...\n", command.name);
    for (const CommandFlag& flag : command.flags) {
      if (flag.is_positional) text += ".Ar " + flag.names.front() + "\n";
    }
  }
  return text;
}

std::string UpperCase(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// The first letter small and no full stop, as .Nd has it.
std::string NameLine(std::string description) {
  if (description.ends_with('.')) description.pop_back();
  if (!description.empty()) {
    description[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(description[0])));
  }
  return description;
}

}  // namespace

std::string ManualPage(const CommandNode& program, const std::string& date) {
  std::string page = fmt::format(
      ".\\\" Made by `{} --manual`.\n.Dd {}\n.Dt {} 1\n.Os\n.Sh NAME\n.Nm {}\n.Nd {}\n.Sh "
      "SYNOPSIS\n{}",
      program.name, date, UpperCase(program.name), program.name, NameLine(program.description),
      Synopsis(program));
  page += ".Sh DESCRIPTION\n" + Paragraph(program.description);
  page += program.subcommands.empty() ? "The options are as follows:\n"
                                      : "The options without a subcommand are as follows:\n";
  page += Flags(program);
  if (!program.subcommands.empty()) {
    page += ".Sh SUBCOMMANDS\n";
    for (const CommandNode& command : program.subcommands) {
      page += fmt::format(".Ss {}\n", command.name) + Paragraph(command.description + ".") +
              Example(command);
      page += Flags(command);
    }
  }
  page += ".Sh EXIT STATUS\n.Bl -tag -width Ds\n";
  for (const auto& [code, meaning] : kExitCodes) page += fmt::format(".It {}\n{}\n", code, meaning);
  page += ".El\n.Sh EXAMPLES\n" + Example(program).substr(std::string_view(".Pp\n").size());
  page += ".Sh SEE ALSO\n";
  std::string others;
  for (const char* name : {"gshard-cost", "gshard-opt", "gshard-run"}) {
    if (name == program.name) continue;
    others += fmt::format("{}.Xr {} 1", others.empty() ? "" : " ,\n", name);
  }
  return page + others + "\n";
}

}  // namespace gshard
