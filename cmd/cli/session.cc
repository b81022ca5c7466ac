// Reading, timing and printing around passes. See session.h.

#include "cmd/cli/session.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "cmd/cli/program.h"
#include "core/analysis/meshes.h"
#include "ir/parser.h"
#include "ir/verifier.h"

namespace gshard {
namespace {

// Milliseconds of each step by name, one entry a repetition, in order of first appearance.
class Stopwatch {
 public:
  template <typename F>
  auto Time(const std::string& name, F&& step) {
    auto start = std::chrono::steady_clock::now();
    auto result = step();
    Add({name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                   .count()});
    return result;
  }

  void Add(const PassTiming& timing) {
    auto it = std::find_if(times_.begin(), times_.end(),
                           [&](const auto& entry) { return entry.first == timing.name; });
    if (it == times_.end()) it = times_.insert(times_.end(), {timing.name, {}});
    it->second.push_back(timing.milliseconds);
  }

  std::vector<PassTiming> Medians() const {
    std::vector<PassTiming> medians;
    for (auto [name, samples] : times_) {
      std::sort(samples.begin(), samples.end());
      size_t middle = samples.size() / 2;
      double median =
          samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
      medians.push_back({name, median});
    }
    return medians;
  }

 private:
  std::vector<std::pair<std::string, std::vector<double>>> times_;
};

Expected<void> WriteTimings(const std::string& path, const std::vector<PassTiming>& timings,
                            size_t input_bytes) {
  if (path.empty()) {
    std::string table;
    for (const PassTiming& timing : timings) {
      table += fmt::format("{:>12.3f} ms  {}\n", timing.milliseconds, timing.name);
    }
    return WriteFile("-", table, /*dash_is_stderr=*/true);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::ordered_json passes = nlohmann::ordered_json::array();
  for (const PassTiming& timing : timings) {
    passes.push_back({{"name", timing.name}, {"time_ms", timing.milliseconds}});
  }
  nlohmann::ordered_json document = {{"schema", "gshard.passes/1"},
                                     {"input_bytes", input_bytes},
                                     {"passes", passes},
                                     {"peak_rss_bytes", usage.ru_maxrss * 1024}};
  return WriteFile(path, document.dump(2) + "\n", /*dash_is_stderr=*/true);
}

}  // namespace

void AddPrintFlags(CLI::App& command, PrintOptions& print) {
  auto add_drop = [&](const char* name, bool& printed, const char* help) {
    command.add_flag_callback(
        name, [&printed] { printed = false; }, help);
  };
  add_drop("--no-metadata", print.metadata, "Drop metadata and debug tables");
  add_drop("--no-layouts", print.layouts, "Drop layouts");
  add_drop("--no-ids", print.ids, "Drop numeric suffixes and channel ids, for diffs");
  CLI::Option* named = command.add_flag("--named", print.named,
                                        "Spell shardings by mesh axis: {@pod, [{'data'}, {}]}");
  command
      .add_flag("--tiles", print.tiles, "Spell all shardings as devices=[..], none by mesh axis")
      ->excludes(named);
}

void AddSessionFlags(CLI::App& command, SessionOptions& options) {
  command.add_option("IN", options.input, "HLO text; - is standard input")
      ->required()
      ->type_name("FILE");
  command.add_option("-o,--output", options.output, "Where the result goes; - is standard output")
      ->type_name("FILE");
  command
      .add_option("-n,--num-partitions", options.num_partitions,
                  "Number of devices (default: the module's)")
      ->check(Between(1, 1 << 20))
      ->type_name("N");
  AddPrintFlags(command, options.print);
  command
      .add_option("--time-passes", options.time_passes,
                  "Time of each step: to standard error, or =FILE.json")
      ->expected(0, 1)
      ->default_str("");
  command.add_option("--repeat", options.repeat, "Repeat everything N times, report medians")
      ->check(Between(1, 1000000))
      ->type_name("N");
  command
      .add_option("--print-after", options.print_after,
                  "Print the module after this pass (standard error)")
      ->type_name("PASS");
  command.add_flag("--verify-each", options.verify_each, "Verify after every pass");
}

int RunSession(const SessionOptions& options, PassContext& context, const SessionBody& body) {
  auto source = SourceText::Open(options.input);
  if (!source) return ReportError(source.error());
  if (!options.print_after.empty() && FindPass(options.print_after) == nullptr) {
    return UsageError(MakeError("E-USAGE-003",
                                fmt::format("no pass is called '{}'", options.print_after),
                                "gshard-opt list-passes prints their names"));
  }
  PassManagerOptions manager{options.verify_each, options.print_after, [](std::string_view text) {
                               if (auto written = WriteFile("-", text, true); !written)
                                 ReportError(written.error());
                             }};
  Stopwatch stopwatch;
  std::string text;
  for (int round = 0; round < options.repeat; ++round) {
    auto module = stopwatch.Time("parse", [&] { return ParseModule(*source); });
    if (!module) return ReportError(module.error());
    auto verified = stopwatch.Time("verify", [&] { return VerifyModule(**module); });
    if (!verified) return ReportError(verified.error());
    if (options.num_partitions > 0) (*module)->header().num_partitions = options.num_partitions;
    std::vector<PassTiming> timings;
    context.diagnostics.clear();
    if (Expected<void> done = body(**module, context, manager, timings); !done)
      return ReportError(done.error());
    for (const PassTiming& timing : timings) stopwatch.Add(timing);
    if (options.print.named) DeclareMainMesh(**module);
    text = stopwatch.Time("print", [&] { return PrintModule(**module, options.print); });
  }
  ReportWarnings(context.diagnostics);
  if (auto written = WriteFile(options.output, text); !written) return ReportError(written.error());
  if (options.time_passes) {
    auto written =
        WriteTimings(*options.time_passes, stopwatch.Medians(), (*source)->text().size());
    if (!written) return ReportError(written.error());
  }
  return kExitOk;
}

}  // namespace gshard
