// Exit codes, input and output of the programs. See program.h.

#include "cmd/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>

#include "ir/parser.h"
#include "ir/source_text.h"
#include "ir/verifier.h"

namespace gshard {

int RunProgram(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  app.set_version_flag("--version", std::string("gshard ") + GSHARD_VERSION);
  app.footer(
      "Exit codes: 0 ok, 1 bad input, 2 bad usage, 3 a check or limit failed, 4 internal error.");
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string program = app.get_name(), problem = error.what();
    for (const CLI::App* chosen : app.get_subcommands()) program += " " + chosen->get_name();
    const bool unknown_subcommand = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr &&
                                    argc > 1 && app.get_require_subcommand_min() > 0 &&
                                    app.get_subcommands().empty();
    if (unknown_subcommand) problem = fmt::format("'{}' is no subcommand", argv[1]);
    fmt::print(stderr, "{}: error: {}\nTry '{} --help'.\n", app.get_name(), problem, program);
    return kExitBadUsage;
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

int UsageError(const Diagnostic& diagnostic) {
  ReportError(diagnostic);
  return kExitBadUsage;
}

int ReportError(const Diagnostic& diagnostic) {
  std::string text = Render(diagnostic);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return kExitBadInput;
}

void ReportWarnings(std::span<const Diagnostic> diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) ReportError(diagnostic);
}

Expected<std::unique_ptr<Module>> ReadModule(const std::string& path, bool verify) {
  auto source = SourceText::Open(path);
  if (!source) return Fail(std::move(source.error()));
  auto module = ParseModule(std::move(*source));
  if (!module || !verify) return module;
  if (Expected<void> verified = VerifyModule(**module); !verified)
    return Fail(std::move(verified.error()));
  return module;
}

Expected<std::string> ReadFile(const std::string& path) {
  auto source = SourceText::Open(path);
  if (!source) return Fail(std::move(source.error()));
  return std::string((*source)->text());
}

Expected<void> WriteFile(const std::string& path, std::string_view text, bool dash_is_stderr) {
  std::FILE* file =
      path == "-" ? (dash_is_stderr ? stderr : stdout) : std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return Fail(
        MakeError("E-IO-003", fmt::format("cannot write '{}': {}", path, std::strerror(errno))));
  }
  bool ok = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  ok = (path == "-" ? std::fflush(file) : std::fclose(file)) == 0 && ok;
  if (!ok) {
    return Fail(
        MakeError("E-IO-003", fmt::format("writing '{}' failed: {}", path, std::strerror(errno))));
  }
  return {};
}

CLI::Validator Between(int64_t least, int64_t most) {
  return CLI::Range(least, most).description("");
}

Expected<int64_t> ParseByteSize(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                            {"B", 1},
                                                            {"KiB", 1024.0},
                                                            {"MiB", 1048576.0},
                                                            {"GiB", 1073741824.0},
                                                            {"KB", 1e3},
                                                            {"MB", 1e6},
                                                            {"GB", 1e9},
                                                            {"TB", 1e12},
                                                            {"TiB", 1099511627776.0},
                                                            {"K", 1024},
                                                            {"M", 1048576.0},
                                                            {"G", 1073741824.0}};
  if (error == std::errc() && value >= 0) {
    for (auto [name, factor] : kUnits) {
      if (unit == name && value * factor < 9e18)
        return static_cast<int64_t>(std::llround(value * factor));
    }
  }
  return Fail(MakeError("E-USAGE-001", fmt::format("'{}' is no size", text),
                        "write 8GiB, 512MB or a number of bytes"));
}

Expected<std::vector<bool>> ParseBools(std::string_view text) {
  if (text.empty()) return std::vector<bool>{true};
  std::vector<bool> values;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word = text.substr(begin, end - begin);
    if (word != "true" && word != "false") {
      return Fail(MakeError("E-USAGE-002", fmt::format("'{}' is neither true nor false", word)));
    }
    values.push_back(word == "true");
    begin = end + 1;
  }
  return values;
}

}  // namespace gshard
