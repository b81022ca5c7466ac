// Reading, timing and printing around passes. See session.h.

#include "cmd/cli/session.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cmd/cli/program.h"
#include "core/analysis/meshes.h"
#include "core/json.h"
#include "core/spmd/expansion.h"
#include "ir/input/module_input.h"
#include "ir/sharding_text.h"
#include "ir/stablehlo/writer.h"
#include "ir/verify/verifier.h"

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

// In the place of a file's name.
constexpr const char* kTimeTable = "table";

Expected<void> WriteTimings(const std::string& path, const std::vector<PassTiming>& timings,
                            size_t input_bytes) {
  if (path == kTimeTable) {
    std::string table;
    for (const PassTiming& timing : timings) {
      table += fmt::format("{:>12.3f} ms  {}\n", timing.milliseconds, timing.name);
    }
    return WriteFile("-", table, /*dash_is_stderr=*/true);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  Json passes = Json::Array();
  for (const PassTiming& timing : timings) {
    passes.Append({{"name", timing.name}, {"time_ms", timing.milliseconds}});
  }
  const Json document = {{"schema", "gshard.passes/1"},
                         {"input_bytes", input_bytes},
                         {"passes", std::move(passes)},
                         {"peak_rss_bytes", usage.ru_maxrss * 1024}};
  return WriteFile(path, document.Text(), /*dash_is_stderr=*/true);
}

void AddPrintFlags(const Command& command, PrintOptions& print) {
  command.AddOffSwitch("--no-metadata", print.metadata, "Drop metadata and debug tables");
  command.AddOffSwitch("--no-layouts", print.layouts, "Drop layouts");
  command.AddOffSwitch("--no-ids", print.ids,
                       "Drop numeric suffixes, renumber channel ids, for diffs");
  command.AddSwitch("--named", print.named,
                    "Spell shardings by mesh axis: {@pod, [{'data'}, {}]}; not with --tiles");
  command.AddSwitch("--tiles", print.tiles,
                    "Spell all shardings as devices=[..], none by mesh axis; not with --named",
                    {"--named"});
}

// Has the user's program parts of axes? Else none are to be shown, though propagation finds some.
bool HasOwnSubAxes(const Module& module) {
  const std::string_view text =
      module.source() == nullptr ? std::string_view() : module.source()->text();
  return HasSubAxes(text) || text.find("\":(") != text.npos;  // as Shardy has it
}

Expected<std::string> Print(Module& module, const SessionOptions& options) {
  if (options.format == "stablehlo") {
    // Shardy's shardings name axes: those of the module's mesh, or inferred ones.
    if (!options.gspmd) DeclareMainMesh(module);
    PassContext context;
    if (auto expanded = ExpandForStableHlo(module, context); !expanded) {
      return Fail(expanded.error());
    }
    return stablehlo::WriteModule(module,
                                  {.gspmd = options.gspmd, .locations = options.print.metadata});
  }
  PrintOptions print = options.print;
  if (print.named) {
    DeclareMainMesh(module);
    print.sub_axes = HasOwnSubAxes(module);
  }
  return PrintModule(module, print);
}

}  // namespace

void AddSessionFlags(const Command& command, SessionOptions& options) {
  AddInputFlags(command, options.input, options.num_partitions);
  command.Add("-o,--output", options.output, "Where the result goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  AddPrintFlags(command, options.print);
  command.Add("--time-passes", options.time_passes,
              "Time of each step, as a table on standard error or as JSON in FILE (bare: table; "
              "default: no times)",
              {.type = "FILE.json", .bare = kTimeTable, .is_output = true, .dash_is_stderr = true});
  command.Add("--repeat", options.repeat,
              "Do everything N times, for --time-passes, which tells medians (default: 1)",
              {.type = "N", .between = {{1, 1000000}}});
  command.Add(
      "--print-after", options.print_after,
      "Print the module after this pass, one of list-passes, on standard error (default: none)",
      {.type = "PASS"});
  command.AddSwitch("--print-after-all", options.print_after_all,
                    "Print the module after every pass, headed by `// after PASS`");
  command.AddSwitch("--verify-each", options.verify_each, "Verify after every pass");
}

int RunReplacingSession(const SessionOptions& options, PassContext& context,
                        const ReplacingBody& body) {
  auto source = SourceText::Open(options.input);
  if (!source) return ReportError(source.error());
  if (!options.print_after.empty()) PassOf("--print-after", options.print_after);
  if (options.repeat > 1 && options.time_passes.empty())
    throw FlagError("--repeat", "it goes with --time-passes, which tells medians");
  auto sink = [](std::string_view text) {
    if (auto written = WriteFile("-", text, true); !written) ReportError(written.error());
  };
  const PassManagerOptions manager{options.verify_each, options.print_after, sink,
                                   options.print_after_all};
  const InputOptions input = CommandInputOptions();
  Stopwatch stopwatch;
  std::string text;
  for (int round = 0; round < options.repeat; ++round) {
    InputReport report;
    auto module =
        stopwatch.Time("parse", [&] { return ReadModuleInput(*source, input, nullptr, &report); });
    if (!module) return ReportError(module.error());
    if (round == 0) ReportWarnings(report.notes);
    // Before it is verified: groups and shardings are to fit the devices that the user names.
    if (options.num_partitions > 0) (*module)->header().num_partitions = options.num_partitions;
    auto verified = stopwatch.Time("verify", [&] { return VerifyModule(**module); });
    if (!verified) return ReportError(verified.error());
    std::vector<PassTiming> timings;
    context.diagnostics.clear();
    if (Expected<void> done = body(*module, context, manager, timings); !done)
      return ReportError(done.error());
    for (const PassTiming& timing : timings) stopwatch.Add(timing);
    auto printed = stopwatch.Time("print", [&] { return Print(**module, options); });
    if (!printed) return ReportError(printed.error());
    text = *std::move(printed);
  }
  ReportWarnings(context.diagnostics);
  if (auto written = WriteFile(options.output, text); !written) return ReportError(written.error());
  if (!options.time_passes.empty()) {
    auto written = WriteTimings(options.time_passes, stopwatch.Medians(), (*source)->text().size());
    if (!written) return ReportError(written.error());
  }
  return kExitOk;
}

int RunSession(const SessionOptions& options, PassContext& context, const SessionBody& body) {
  return RunReplacingSession(
      options, context,
      [&](std::unique_ptr<Module>& module, PassContext& passes, const PassManagerOptions& manager,
          std::vector<PassTiming>& timings) { return body(*module, passes, manager, timings); });
}

}  // namespace gshard
