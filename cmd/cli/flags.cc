// See flags.h.

#include "cmd/cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <new>
#include <type_traits>

#include "cmd/cli/program.h"
#include "ir/parser_errors.h"

namespace gshard {

template <typename T>
void Command::Add(const std::string& names, T& value, const std::string& help,
                  const FlagTraits& traits) const {
  CLI::Option* option = app_->add_option(names, value, help);
  if (!traits.type.empty()) option->type_name(traits.type);
  if (traits.required) option->required();
  if (traits.may_be_bare) option->expected(0, 1)->default_str("");
  if (!traits.one_of.empty()) option->check(CLI::IsMember(traits.one_of).description(""));
  if (traits.between) {
    auto [least, most] = *traits.between;
    option->check(CLI::Range(least, most).description(""));
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
                        const std::string& excluded) const {
  CLI::Option* option = app_->add_flag(names, value, help);
  if (!excluded.empty()) option->excludes(app_->get_option(excluded));
}

void Command::AddOffSwitch(const std::string& names, bool& value, const std::string& help) const {
  app_->add_flag_callback(
      names, [&value] { value = false; }, help);
}

void Command::AddChoice(const std::string& name, const std::string& bare, std::string& value,
                        const std::string& help, const std::vector<std::string>& texts) const {
  app_->add_flag(fmt::format("{}{{{}}}", name, bare), value, help)->check(CLI::IsMember(texts));
}

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : Command(nullptr), owned_(std::make_unique<CLI::App>(description, program)) {
  app_ = owned_.get();
}

CommandLine::~CommandLine() = default;

Command CommandLine::AddSubcommand(const std::string& name, const std::string& description,
                                   std::function<int()> run) {
  app_->require_subcommand(1);
  CLI::App* command = app_->add_subcommand(name, description);
  command->callback([this, run = std::move(run)] { chosen_ = run; });
  return Command(command);
}

namespace {

// The first word that looks like a flag among those that nobody took.
std::string FirstUnknownFlag(const CLI::App& app) {
  for (const std::string& word : app.remaining(/*recurse=*/true)) {
    if (word.starts_with("--")) return word.substr(0, word.find('='));
  }
  return {};
}

// What `word` may be a misspelling of: a subcommand, or a flag of the chosen one.
std::string Meant(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  auto add_flags = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  add_flags(app);
  for (const CLI::App* chosen : app.get_subcommands()) add_flags(*chosen);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  NearestWord nearest(word);
  for (const std::string& name : names) nearest.Offer(name);
  return nearest.Hint();
}

int ReportUsage(const CLI::App& app, std::string_view problem) {
  std::string program = app.get_name();
  for (const CLI::App* chosen : app.get_subcommands()) program += " " + chosen->get_name();
  fmt::print(stderr, "{}: error: {}\nTry '{} --help'.\n", app.get_name(), problem, program);
  return kExitBadUsage;
}

}  // namespace

int CommandLine::Run(int argc, char** argv, std::function<int()> run) {
  app_->set_version_flag("--version", std::string("gshard ") + GSHARD_VERSION);
  app_->footer(
      "Exit codes: 0 ok, 1 bad input, 2 bad usage, 3 a check or limit failed, 4 internal error, "
      "130 ended by Ctrl-C.");
  const CLI::App& app = *app_;
  try {
    app_->parse(argc, argv);
    return run ? run() : chosen_();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const bool unknown_subcommand = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                                    argc > 1 && app.get_require_subcommand_min() > 0 &&
                                    app.get_subcommands().empty();
    std::string problem = error.what(), unknown;
    if (unknown_subcommand) {
      unknown = argv[1];
      problem = fmt::format("'{}' is no subcommand", unknown);
    } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
      unknown = FirstUnknownFlag(app);
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
