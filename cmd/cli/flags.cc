// See flags.h.

#include "cmd/cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <new>
#include <sstream>
#include <type_traits>

#include "cmd/cli/command_tree.h"
#include "cmd/cli/failed_pipe.h"
#include "cmd/cli/interrupt.h"
#include "cmd/cli/manual_page.h"
#include "cmd/cli/program.h"
#include "cmd/cli/shell_completions.h"
#include "core/json.h"
#include "ir/output_file.h"
#include "ir/parser_errors.h"

namespace gshard {

namespace {

constexpr size_t kHelpColumn = 30, kHelpWidth = 100;

// Lines of at most the width that is left beside the names of the flags.
std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t column = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(' ', begin), text.size());
    if (column > 0 && column + 1 + end - begin > kHelpWidth - kHelpColumn) {
      wrapped += '\n';
      column = 0;
    }
    if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    wrapped.append(text, begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return wrapped;
}

// A flag, what its value is, and no more: what goes with what is said by the text.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kHelpColumn); }

  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    return name.substr(0, name.find('{'));  // "--verify{instructions}": the value of the bare flag
  }
  // Of a program that does something without a subcommand too.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const bool both = app->get_require_subcommand_min() == 0 && app->get_parent() == nullptr &&
                      !app->get_subcommands([](const CLI::App*) { return true; }).empty();
    if (!both) return CLI::Formatter::make_usage(app, name);
    std::string usage = fmt::format("Usage: {} [OPTIONS]", name);
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) usage += " " + option->get_name(/*positional=*/true);
    }
    return fmt::format("{}\n       {} SUBCOMMAND [OPTIONS] ..\n", usage, name);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string& text = option->get_option_text();
    return text.empty() ? text : " " + text;
  }
};

void AddVersionFlag(CLI::App& app, const std::string& more = "") {
  app.set_version_flag("--version", std::string("gshard ") + GSHARD_VERSION + more,
                       "Print the version");
  app.set_help_flag("-h,--help", "Print this text");
}

}  // namespace

namespace {

// What the library does not keep of an option.
struct OptionFacts {
  std::vector<std::string> choices;
  std::vector<std::string> companions;  // of one that says nothing alone: one must be given, too
  bool takes_standard_output = false;   // a file, and "-" is standard output
};

std::map<const CLI::Option*, OptionFacts>& KnownFacts() {
  static std::map<const CLI::Option*, OptionFacts> facts;
  return facts;
}

}  // namespace

std::vector<std::string> ChoicesOf(const CLI::Option* option) {
  auto known = KnownFacts().find(option);
  return known == KnownFacts().end() ? std::vector<std::string>() : known->second.choices;
}

void ClaimOutput(const std::string& flag, const std::string& path) {
  static std::vector<std::pair<std::string, std::string>> claimed;
  if (path.empty() || path == "-") return;
  for (const auto& [other, file] : claimed) {
    if (IsSameOutput(file, path)) {
      throw FlagError(flag, fmt::format("{} writes '{}' already", other, file));
    }
  }
  claimed.emplace_back(flag, path);
}

template <typename T>
void Command::Add(const std::string& names, T& value, const std::string& help,
                  const FlagTraits& traits) const {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<T, std::string>) {
    if (traits.bare) {
      option = app_->add_flag(fmt::format("{}{{{}}}", names, *traits.bare), value, Wrapped(help));
    }
  }
  if (option == nullptr) option = app_->add_option(names, value, Wrapped(help));
  const std::string type = traits.type.empty() ? "TEXT" : traits.type;
  option->type_name(type);
  option->option_text(traits.bare ? "[=" + type + "]" : type);
  if (traits.required) option->required();
  if (!traits.one_of.empty()) option->check(CLI::IsMember(traits.one_of).description(""));
  if (!traits.one_of.empty()) KnownFacts()[option].choices = traits.one_of;
  if (traits.between) {
    auto [least, most] = *traits.between;
    option->check(CLI::Range(least, most).description(""));
  }
  if (traits.is_output) {
    KnownFacts()[option].takes_standard_output = !traits.dash_is_stderr;
    const std::string flag = names.substr(names.rfind(',') + 1);
    option->check(CLI::Validator(
        [flag](std::string& path) {
          try {
            ClaimOutput(flag, path);
          } catch (const FlagError& error) {
            return std::string(error.what()).substr(flag.size() + 2);
          }
          return std::string();
        },
        ""));
  }
  if constexpr (std::is_same_v<T, std::vector<std::string>>) option->take_all()->expected(1);
}

template void Command::Add(const std::string&, std::string&, const std::string&,
                           const FlagTraits&) const;
template void Command::Add(const std::string&, std::optional<std::string>&, const std::string&,
                           const FlagTraits&) const;
template void Command::Add(const std::string&, std::vector<std::string>&, const std::string&,
                           const FlagTraits&) const;
template void Command::Add(const std::string&, int&, const std::string&, const FlagTraits&) const;
template void Command::Add(const std::string&, int64_t&, const std::string&,
                           const FlagTraits&) const;
template void Command::Add(const std::string&, uint64_t&, const std::string&,
                           const FlagTraits&) const;

void Command::AddSwitch(const std::string& names, bool& value, const std::string& help,
                        const std::vector<std::string>& excluded) const {
  CLI::Option* option = app_->add_flag(names, value, Wrapped(help));
  for (const std::string& other : excluded) option->excludes(app_->get_option(other));
}

void Command::AddOnlyWith(const std::vector<std::string>& others,
                          const std::function<void()>& add) const {
  const size_t before = app_->get_options().size();
  add();
  const std::vector<CLI::Option*> options = app_->get_options();
  for (size_t i = before; i < options.size(); ++i) KnownFacts()[options[i]].companions = others;
}

void Command::AddOffSwitch(const std::string& names, bool& value, const std::string& help) const {
  app_->add_flag_callback(
      names, [&value] { value = false; }, Wrapped(help));
}

void Command::Suggest(const std::string& name, std::vector<std::string> values) const {
  KnownFacts()[app_->get_option(name)].choices = std::move(values);
}

void Command::AddChoice(const std::string& name, const std::string& bare, std::string& value,
                        const std::string& help, const std::vector<std::string>& texts) const {
  CLI::Option* option = app_->add_flag(fmt::format("{}{{{}}}", name, bare), value, Wrapped(help))
                            ->check(CLI::IsMember(texts).description(""))
                            ->option_text(fmt::format("[={}]", fmt::join(texts, "|")));
  KnownFacts()[option].choices = texts;
}

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(description, program)) {
  app_ = owned_.get();
  app_->formatter(std::make_shared<HelpFormatter>());
  AddVersionFlag(*app_);
}

CommandLine::~CommandLine() = default;

void CommandLine::AddVersionText(const std::string& text) { AddVersionFlag(*app_, "\n" + text); }

void CommandLine::AddSubcommand(const std::string& name, const std::string& description,
                                const std::string& example, std::function<int()> run,
                                std::function<void(const Command&)> add_flags) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(name, description);
  command->footer("Example: " + example);
  auto add_all = [command, add_flags = std::move(add_flags)] {
    AddVersionFlag(*command);
    add_flags(Command(command));
  };
  add_subcommand_flags_.push_back(add_all);
  command->preparse_callback([add_all = std::move(add_all)](size_t) { add_all(); });
  command->callback([this, run = std::move(run)] { chosen_ = run; });
}

namespace {

// The first word that looks like a flag among those that nobody took.
std::string FirstUnknownFlag(const CLI::App& app) {
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (word.starts_with("--")) return word.substr(0, word.find('='));
  }
  return {};
}

// The arguments, last first, with "help" in the place of a subcommand, or behind one, as --help.
std::vector<std::string> ArgumentsReversed(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  auto is_subcommand = [&](const std::string& word) {
    return !app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; })
                .empty();
  };
  if (!words.empty() && words[0] == "help" &&
      (words.size() == 1 || (words.size() == 2 && is_subcommand(words[1])))) {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.size() == 2 && words[1] == "help" && is_subcommand(words[0])) {
    words[1] = "--help";
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// What `word` may be a misspelling of: a subcommand, or a flag of the chosen one.
std::string Meant(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  auto add_flags = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  const std::vector<const CLI::App*> chosen =
      app.get_subcommands([](const CLI::App* sub) { return sub->parsed(); });
  if (chosen.empty()) add_flags(app);  // a subcommand takes its own only
  for (const CLI::App* sub : chosen) add_flags(*sub);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  NearestWord nearest(word);
  for (const std::string& name : names) nearest.Offer(name);
  return nearest.Hint();
}

// CLI11 gives the first word to a required positional, be it a subcommand's name. So where a
// program runs with or without one, what is required without is looked at after parsing.
std::vector<const CLI::Option*> TakeRequired(CLI::App& app) {
  std::vector<const CLI::Option*> required;
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_required()) continue;
    required.push_back(option);
    option->required(false);
  }
  return required;
}

// Throws FlagError for a flag that is given without one that it says something about.
void CheckCompanions(const CLI::App& app) {
  const auto is_given = [&](const std::string& name) { return app.get_option(name)->count() > 0; };
  for (const CLI::Option* option : app.get_options()) {
    const auto known = KnownFacts().find(option);
    if (option->count() == 0 || known == KnownFacts().end()) continue;
    const std::vector<std::string>& others = known->second.companions;
    if (others.empty() || std::ranges::any_of(others, is_given)) continue;
    throw FlagError(option->get_name(), fmt::format("it goes with {}", fmt::join(others, " or ")));
  }
}

// Throws FlagError where two documents would go to standard output, which takes the result of every
// command that has no -o, or for which it is not given.
void CheckStandardOutput(const CLI::App& app) {
  const CLI::Option* const result = app.get_option_no_throw("-o");
  const auto is_dash = [](const CLI::Option* option) {
    return option->count() > 0 && option->results().back() == "-";
  };
  if (result != nullptr && result->count() > 0 && !is_dash(result)) return;
  for (const CLI::Option* option : app.get_options()) {
    const auto known = KnownFacts().find(option);
    const bool takes = known != KnownFacts().end() && known->second.takes_standard_output;
    if (option == result || !takes || !is_dash(option)) continue;
    throw FlagError(option->get_name(),
                    fmt::format("standard output takes the result already{}",
                                result == nullptr ? "" : "; -o FILE writes that elsewhere"));
  }
}

// What --help and --version ask for.
int PrintAnswer(const CLI::App& app, const CLI::Error& question) {
  std::ostringstream answer, problems;
  app.exit(question, answer, problems);
  auto written = WriteFile("-", answer.str());
  return written ? kExitOk : ReportError(written.error());
}

// --version for scripts.
int PrintVersionJson(const CLI::App& app) {
  Json document = {{"schema", "gshard.version/1"},
                   {"program", app.get_name()},
                   {"version", GSHARD_VERSION},
                   {"compiler", GSHARD_COMPILER},
                   {"build_type", GSHARD_BUILD_TYPE}};
  // gshard-run tells the machine behind the first line.
  const std::string text = app.version();
  const size_t line = text.find('\n');
  if (line != std::string::npos) document.Set("machine", text.substr(line + 1));
  auto written = WriteFile("-", document.Text());
  return written ? kExitOk : ReportError(written.error());
}

int ReportUsage(const CLI::App& app, std::string_view problem) {
  std::string program = app.get_name();
  for (const CLI::App* chosen : app.get_subcommands()) program += " " + chosen->get_name();
  fmt::print(stderr, "{}: error: {}\nTry '{} --help'.\n", app.get_name(), problem, program);
  return kExitBadUsage;
}

}  // namespace

int CommandLine::Run(int argc, char** argv, const std::function<int()>& run) {
  const int exit_code = RunChosen(argc, argv, run);
  MarkFailedPipe(exit_code);
  return exit_code;
}

int CommandLine::PrintDescription(const std::string& form) {
  for (const std::function<void()>& add_flags : add_subcommand_flags_) add_flags();
  const CommandNode program = DescribeCommand(*app_);
  const std::string text = form == "bash"   ? BashCompletions(program)
                           : form == "zsh"  ? ZshCompletions(program)
                           : form == "fish" ? FishCompletions(program)
                                            : ManualPage(program, GSHARD_RELEASE_DATE);
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

int CommandLine::RunChosen(int argc, char** argv, const std::function<int()>& run) {
  app_->footer(
      "Exit codes: 0 ok, 1 bad input, 2 bad usage, 3 a check or limit failed, 4 internal error, "
      "130 ended by Ctrl-C.");
  const CLI::App& app = *app_;
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  if (words == std::vector<std::string>{"--manual"}) return PrintDescription("manual");
  if (words.size() == 2 && words[0] == "--completions" &&
      std::ranges::find(shells, words[1]) != shells.end()) {
    return PrintDescription(words[1]);
  }
  if (words.size() == 2 && std::ranges::count(words, "--version") == 1 &&
      std::ranges::count(words, "--json") == 1) {
    return PrintVersionJson(app);
  }
  std::vector<const CLI::Option*> required;
  if (run && app_->get_require_subcommand_min() > 0) {
    app_->require_subcommand(0, 1);
    required = TakeRequired(*app_);
  }
  static const std::string name = app_->get_name();
  ExitOnInterrupt(name.c_str());
  try {
    app_->parse(ArgumentsReversed(app, argc, argv));
    const std::vector<CLI::App*> subcommands = app_->get_subcommands();
    const CLI::App& given = subcommands.empty() ? app : *subcommands.front();
    CheckCompanions(given);
    CheckStandardOutput(given);
    if (chosen_) return chosen_();
    for (const CLI::Option* option : required) {
      if (option->count() == 0) throw CLI::RequiredError(option->get_name());
    }
    return run();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return PrintAnswer(app, error);  // --help, --version
    const bool unknown_subcommand = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                                    argc > 1 && app.get_require_subcommand_min() > 0 &&
                                    app.get_subcommands().empty();
    std::string problem = error.what(), unknown;
    if (unknown_subcommand) {
      unknown = argv[1];
      problem = fmt::format("'{}' is no subcommand", unknown);
    } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
      unknown = FirstUnknownFlag(app);
      if (!unknown.empty()) problem = fmt::format("there is no flag {}", unknown);
    }
    const std::string meant = unknown.empty() ? std::string() : Meant(app, unknown);
    return ReportUsage(app, meant.empty() ? problem : problem + "; " + meant);
  } catch (const FlagError& error) {
    return ReportUsage(app, error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: error: out of memory\n", app.get_name());
    return kExitCheckFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr,
               "{}: internal error: {}\nThis is a bug in gshard, not in your program. Please "
               "report it with the "
               "command line, `{} --version` and the input.\n",
               app.get_name(), error.what(), app.get_name());
    return kExitInternalError;
  }
}

}  // namespace gshard
