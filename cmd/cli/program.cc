// Exit codes, input and output of the programs. See program.h.

#include "cmd/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "cmd/cli/failed_pipe.h"
#include "core/json.h"
#include "ir/input/module_input.h"
#include "ir/output_file.h"
#include "ir/source_text.h"
#include "ir/verify/verifier.h"

namespace gshard {

int UsageError(const Diagnostic& diagnostic) {
  ReportError(diagnostic);
  return kExitBadUsage;
}

int ReportError(const Diagnostic& diagnostic) {
  if (diagnostic.severity == Severity::kError && diagnostic.file == "<stdin>" &&
      ReadsFromFailedPipe()) {
    return kExitBadInput;
  }
  std::string text = Render(diagnostic);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return kExitBadInput;
}

void PrintErrorJson(const Diagnostic& diagnostic, std::string_view schema) {
  Json error = {{"code", diagnostic.code}, {"message", diagnostic.message}};
  if (!diagnostic.file.empty()) error.Set("file", diagnostic.file);
  if (diagnostic.line > 0) {
    error.Set("line", diagnostic.line);
    error.Set("column", diagnostic.column);
  }
  if (!diagnostic.hint.empty()) error.Set("hint", diagnostic.hint);
  Json document = {{"schema", schema}};
  document.Set("error", std::move(error));
  if (auto written = WriteFile("-", document.Text()); !written) ReportError(written.error());
}

void ReportWarnings(std::span<const Diagnostic> diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) ReportError(diagnostic);
}

namespace {

// What --dim gave: a process reads one command line.
std::vector<std::string>& DimFlags() {
  static std::vector<std::string> flags;
  return flags;
}

std::string& ModuleFlag() {
  static std::string flag;
  return flag;
}

// In one system call, so that a reader that has enough (`| head -2`) need not break the pipe.
bool WriteAtOnce(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

void AddInputFlags(const Command& command, std::string& input, int64_t& num_partitions) {
  command.Add("IN", input,
              "HLO or StableHLO text, an HLO proto (.hlo.pb), or gzip of one; - is standard input "
              "(required)",
              {.type = "FILE", .required = true});
  command.Add("-n,--num-partitions", num_partitions, "Number of devices (default: the module's)",
              {.type = "N", .between = {{1, 1 << 20}}});
  AddReadFlags(command);
}

void AddReadFlags(const Command& command) {
  command.Add(
      "--dim", DimFlags(),
      "Size of a dim that a shape-polymorphic StableHLO program leaves open, by its variable "
      "or its place, --dim arg0:0=16 (may be repeated; default: none)",
      {.type = "NAME=SIZE"});
  command.Add(
      "--module", ModuleFlag(),
      "Which of several modules in IN: its name, or its place, --module #2 (default: there is "
      "one only)",
      {.type = "NAME"});
}

InputOptions CommandInputOptions() {
  InputOptions options;
  options.module_name = ModuleFlag();
  for (const std::string& flag : DimFlags()) {
    const size_t equals = flag.rfind('=');
    int64_t size = 0;
    const char* end = flag.data() + flag.size();
    const char* digits = equals == flag.npos ? end : flag.data() + equals + 1;
    const auto [stop, error] = std::from_chars(digits, end, size);
    if (equals == 0 || error != std::errc() || stop != end || size < 0) {
      throw FlagError("--dim", fmt::format("'{}' is no NAME=SIZE, such as batch=16", flag));
    }
    options.dims[flag.substr(0, equals)] = size;
  }
  return options;
}

Expected<std::unique_ptr<Module>> ReadModule(const std::string& path, int64_t num_partitions,
                                             InputReport* report) {
  auto source = SourceText::Open(path);
  if (!source) return Fail(std::move(source.error()));
  return ReadModule(std::move(*source), num_partitions, report);
}

Expected<std::unique_ptr<Module>> ReadModule(std::shared_ptr<const SourceText> source,
                                             int64_t num_partitions, InputReport* report) {
  InputReport own;
  if (report == nullptr) report = &own;
  auto module = ReadModuleInput(std::move(source), CommandInputOptions(), nullptr, report);
  if (!module) return module;
  ReportWarnings(report->notes);
  if (num_partitions > 0) (*module)->header().num_partitions = num_partitions;
  if (Expected<void> verified = VerifyModule(**module); !verified)
    return Fail(std::move(verified.error()));
  return module;
}

Expected<std::string> ReadFile(const std::string& path) {
  auto source = SourceText::Open(path);
  if (!source) return Fail(std::move(source.error()));
  return std::string((*source)->text());
}

std::string Digest(std::string_view bytes) {
  return fmt::format("{} {:016x}", bytes.size(), std::hash<std::string_view>()(bytes));
}

Expected<void> WriteFile(const std::string& path, std::string_view text, bool dash_is_stderr) {
  if (path != "-") return WriteWholeFile(path, text);
  std::FILE* file = dash_is_stderr ? stderr : stdout;
  if (std::fflush(file) != 0 || !WriteAtOnce(fileno(file), text)) {
    return Fail(MakeError("E-IO-003",
                          fmt::format("writing standard {} failed: {}",
                                      dash_is_stderr ? "error" : "output", std::strerror(errno))));
  }
  return {};
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

int64_t ByteSizeOf(const std::string& flag, std::string_view text) {
  Expected<int64_t> bytes = ParseByteSize(text);
  if (!bytes) throw FlagError(flag, bytes.error());
  return *bytes;
}

int64_t MemoryLimitOf(const std::string& flag, std::string_view text) {
  constexpr int64_t kMin = 4096;
  const int64_t bytes = ByteSizeOf(flag, text);
  if (bytes > 0 && bytes < kMin && text.find_first_not_of("0123456789.") == text.npos) {
    Diagnostic warning =
        MakeError("W-USAGE-001", fmt::format("{} {} is {} bytes", flag, text, bytes),
                  fmt::format("with a unit: {0}GiB, or {0}B if bytes are meant", text));
    warning.severity = Severity::kWarning;
    ReportError(warning);
  }
  return bytes;
}

double NumberOf(const std::string& flag, std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || read != end || !(value >= 0) || !std::isfinite(value)) {
    throw FlagError(flag, fmt::format("'{}' is no number of at least 0", text));
  }
  return value;
}

const Pass* PassOf(const std::string& flag, std::string_view name) {
  Expected<const Pass*> pass = PassNamed(name);
  if (!pass) throw FlagError(flag, pass.error());
  return *pass;
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
