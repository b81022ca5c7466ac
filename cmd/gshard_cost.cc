// gshard-cost: what a program costs on each device of a mesh.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "cmd/cli/ci_output.h"
#include "cmd/cli/cost_diff.h"
#include "cmd/cli/cost_sweep.h"
#include "cmd/cli/estimate.h"
#include "cmd/cli/program.h"
#include "core/analysis/device_grid.h"
#include "core/analysis/meshes.h"
#include "core/check/communication_check.h"
#include "core/cost/priced_step.h"
#include "core/report/budget.h"
#include "core/report/ci/cost_checks.h"
#include "core/report/cost_json.h"
#include "core/report/cost_markdown.h"
#include "core/report/cost_page.h"
#include "core/report/cost_text.h"
#include "core/report/failed_check.h"
#include "core/report/quantity_text.h"
#include "core/report/timeline_text.h"
#include "core/report/trace/chakra.h"
#include "core/report/trace/perfetto.h"
#include "core/report/trace/step_trace.h"

namespace gshard {
namespace {

constexpr const char* kSchema = "gshard.cost/1";

struct Flags {
  std::string input;
  EstimateFlags estimate;
  std::string limit;
  int64_t top = 0;
  int64_t advice = -1;  // not given
  std::string check, write_budget;
  std::string head_room = "10%";
  std::string html;
  std::string output = "-";
  std::string trace, chakra, devices;
  bool gantt = false;
  bool json = false, markdown = false;
  CiFlags ci;
};

// What is wrong with the input; returns the exit code.
int Refuse(const Flags& flags, const Diagnostic& error) {
  return ReportEstimateError(error, flags.json, kSchema);
}

// "10%" or "10" -> 0.1.
double ReadHeadRoom(const std::string& text) {
  size_t end = 0;
  double percent = -1;
  try {
    percent = std::stod(text, &end);
  } catch (const std::logic_error&) {
  }
  if (end < text.size() && text[end] == '%') ++end;
  if (end != text.size() || !(percent >= 0) || percent > 1e6) {
    throw FlagError("--head-room", fmt::format("'{}' is no share such as 10%", text));
  }
  return percent / 100;
}

// Nothing if no budget is asked for.
Expected<std::optional<Budget>> ReadBudget(const Flags& flags) {
  if (flags.check.empty()) return std::nullopt;
  Expected<std::string> text = ReadFile(flags.check);
  if (!text) {
    if (text.error().hint.empty()) text.error().hint = "--write-budget writes one";
    return Fail(std::move(text.error()));
  }
  Expected<Budget> budget = ParseBudget(*text, flags.check);
  if (!budget) return Fail(std::move(budget.error()));
  return std::move(*budget);
}

Budget FiguresFor(const Estimate& estimate) {
  std::optional<int64_t> remats;
  if (estimate.collectives) {
    remats = static_cast<int64_t>(estimate.collectives->rematerializations.size());
  } else if (estimate.report.devices == 1) {
    remats = 0;
  }
  return FiguresFor(estimate.report, MainMesh(*estimate.module), remats);
}

// What is over the limit and the budget.
std::vector<FailedCheck> FailedChecks(const Flags& flags, const Estimate& estimate,
                                      std::optional<int64_t> limit,
                                      const std::vector<BoundedFigure>& bounds) {
  std::vector<FailedCheck> failed;
  const auto peak = static_cast<double>(estimate.report.memory.peak_bytes);
  if (limit && peak > static_cast<double>(*limit)) {
    const auto allowed = static_cast<double>(*limit);
    failed.push_back({"limit",
                      fmt::format("over the limit: {} a device, allowed are {}", HumanBytes(peak),
                                  HumanBytes(allowed)),
                      "", peak, allowed});
  }
  for (const BoundedFigure& bound : bounds) {
    if (!bound.IsExceeded()) continue;
    failed.push_back({"budget", fmt::format("over the budget of {}", flags.check), bound.key,
                      bound.value, bound.allowed});
  }
  return failed;
}

// Standard error tells them; returns the exit code.
int ReportChecks(const Flags& flags, const std::vector<FailedCheck>& failed,
                 const std::vector<BoundedFigure>& bounds) {
  for (const FailedCheck& check : failed) {
    if (check.check == "limit") fmt::print(stderr, "gshard-cost: {}\n", check.message);
  }
  if (std::ranges::any_of(bounds, &BoundedFigure::IsExceeded)) {
    fmt::print(stderr, "gshard-cost: over the budget of {}:\n{}", flags.check,
               ExceededAsText(bounds));
  } else if (!flags.check.empty()) {
    fmt::print(stderr, "gshard-cost: within the budget of {}\n", flags.check);
  }
  return failed.empty() ? kExitOk : kExitCheckFailed;
}

// What is wrong with the program's communication; printed as warnings, since its cost is told.
CommunicationFindings FindingsOf(const Estimate& estimate, int64_t num_partitions) {
  const Module& module = *estimate.module;
  CommunicationFindings findings =
      CheckCommunication(module, CountDevices(module, num_partitions)).findings;
  for (const CommunicationFinding& finding : findings) {
    Diagnostic warning = finding.diagnostic;
    warning.severity = Severity::kWarning;
    fmt::print(stderr, "{}", Render(warning));
  }
  return findings;
}

// All checks, and what is wrong with the communication, for --github and the like.
Expected<void> TellCi(const Flags& flags, const Estimate& estimate, std::optional<int64_t> limit,
                      const std::vector<BoundedFigure>& bounds,
                      const CommunicationFindings& findings) {
  if (!flags.ci.AreGiven()) return {};
  const CollectiveReport* causes = estimate.collectives ? &*estimate.collectives : nullptr;
  CiReport report{"gshard-cost", "", flags.input, {}, ""};
  report.checks = CostChecks(*estimate.module, estimate.report, bounds, limit, causes);
  for (const CommunicationFinding& finding : findings) {
    report.checks.push_back(CheckOf(finding.diagnostic, std::string(finding.instruction->name())));
    report.checks.back().outcome = CiOutcome::kWarning;  // as it is printed: the cost is told
  }
  report.markdown = CostAsMarkdown(*estimate.module, estimate.report);
  return WriteCiReport(flags.ci, std::move(report));
}

// Of suggestions that were tried.
size_t RowsOfAdvice(const Flags& flags) {
  if (flags.advice >= 0) return static_cast<size_t>(flags.advice);
  return flags.json || flags.markdown ? 0 : 3;
}

// "0,5,8..11" -> 0, 5, 8, 9, 10, 11; empty: none.
std::vector<int64_t> ReadDevices(const std::string& text, int64_t count) {
  std::vector<int64_t> devices;
  const char* p = text.data();
  const char* const end = p + text.size();
  const auto number = [&] {
    int64_t value = -1;
    const auto [next, error] = std::from_chars(p, end, value);
    if (error != std::errc() || value < 0 || value >= count) {
      throw FlagError(
          "--devices",
          fmt::format("'{}' names no devices of 0..{}; such as 0,5 or 0..7", text, count - 1));
    }
    p = next;
    return value;
  };
  while (p != end) {
    const int64_t first = number();
    int64_t last = first;
    if (end - p > 2 && p[0] == '.' && p[1] == '.') {
      p += 2;
      last = number();
    }
    if (last < first) {
      throw FlagError("--devices", fmt::format("{}..{} counts down", first, last));
    }
    for (int64_t device = first; device <= last; ++device) devices.push_back(device);
    if (p != end && (*p != ',' || ++p == end)) number();  // which refuses it
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

// --chakra: traces for simulators of clusters, each file written by itself.
Expected<void> WriteChakraFiles(const Flags& flags, const Chip& chip, const Estimate& estimate,
                                std::span<const int64_t> devices) {
  std::error_code error;
  std::filesystem::create_directories(flags.chakra, error);
  Expected<PricedStep> priced =
      PricedStep::Make(*estimate.module, chip, CostOptionsFor(flags.estimate));
  if (!priced) return Fail(std::move(priced.error()));
  const auto sink = [&](const std::string& name, std::string_view bytes) {
    return WriteFile((std::filesystem::path(flags.chakra) / name).string(), bytes);
  };
  auto written = WriteChakra(*estimate.module, *priced, chip, devices, sink);
  if (!written) return Fail(std::move(written.error()));
  fmt::print(stderr, "gshard-cost: {}/step.*.et: {}, {} nodes, {}\n", flags.chakra,
             Counted(written->traces, "trace"), written->nodes,
             HumanBytes(static_cast<double>(written->bytes)));
  return {};
}

Expected<void> WriteTraces(const Flags& flags, const Chip& chip, const Estimate& estimate) {
  const std::vector<int64_t> devices = ReadDevices(flags.devices, estimate.report.devices);
  if (!flags.trace.empty()) {
    Expected<std::string> trace =
        IsPerfettoFile(flags.trace)
            ? StepAsPerfetto(*estimate.module, estimate.report, devices)
            : Expected<std::string>(TimelineAsTrace(*estimate.module, estimate.report));
    if (!trace) return Fail(std::move(trace.error()));
    if (auto written = WriteFile(flags.trace, *trace); !written) return written;
  }
  if (flags.chakra.empty()) return {};
  return WriteChakraFiles(flags, chip, estimate, devices);
}

int Run(const Flags& flags) {
  Expected<Chip> chip = ReadChip(flags.estimate.chip);
  if (!chip) return Refuse(flags, chip.error());
  std::optional<int64_t> limit;
  if (!flags.limit.empty()) limit = MemoryLimitOf("--limit", flags.limit);
  const double head_room = ReadHeadRoom(flags.head_room);
  Expected<std::optional<Budget>> budget = ReadBudget(flags);
  if (!budget) return Refuse(flags, budget.error());
  auto module = ReadModule(flags.input, flags.estimate.num_partitions);
  if (!module) return Refuse(flags, module.error());
  const bool counts_causes = !flags.check.empty() || !flags.write_budget.empty();
  const size_t advice = RowsOfAdvice(flags);
  const Causes told = !flags.html.empty() || advice > 0 ? Causes::kAdvised
                      : counts_causes                   ? Causes::kRecorded
                                                        : Causes::kNone;
  Expected<Estimate> estimate = EstimateModule(std::move(*module), *chip, flags.estimate, told,
                                               limit, /*tries_all=*/flags.advice > 0);
  if (!estimate) return Refuse(flags, estimate.error());
  ReportWarnings(estimate->diagnostics);
  const CommunicationFindings findings = FindingsOf(*estimate, flags.estimate.num_partitions);
  std::vector<BoundedFigure> bounds;
  if (*budget) {
    const Budget figures = FiguresFor(*estimate);
    if (auto warning = ChipWarning(figures, **budget, flags.check)) ReportError(*warning);
    auto found = BoundedFigures(figures, **budget, flags.check);
    if (!found) return Refuse(flags, found.error());
    bounds = std::move(*found);
  }
  CostReport& report = estimate->report;
  const auto top = static_cast<size_t>(flags.top);
  const size_t rows = top > 0 ? top : 12;
  const std::vector<FailedCheck> failed = FailedChecks(flags, *estimate, limit, bounds);
  std::vector<TriedAdvice> shown = estimate->advice;
  if (shown.size() > advice) shown.resize(advice);
  AsXlaLists xla = {AsXlaRows(estimate->as_xla), AsXlaRematerializations(estimate->as_xla)};
  std::string text =
      flags.json
          ? CostAsJson(*estimate->module, report, top, findings, failed, shown, std::move(xla))
      : flags.markdown ? CostAsMarkdown(*estimate->module, report, rows) + AdviceAsMarkdown(shown)
                       : CostAsText(*estimate->module, report, rows) +
                             AsXlaText(estimate->as_xla, report.mesh) + AdviceAsText(shown, report);
  if (flags.gantt) text += TimelineAsGantt(report);
  if (auto written = WriteFile(flags.output, text); !written) return ReportError(written.error());
  if (auto written = WriteTraces(flags, *chip, *estimate); !written) {
    return ReportError(written.error());
  }
  if (!flags.write_budget.empty()) {
    auto written = WriteFile(flags.write_budget, BudgetAsJson(FiguresFor(*estimate), head_room));
    if (!written) return ReportError(written.error());
  }
  if (!flags.html.empty()) {
    const CollectiveReport* causes = estimate->collectives ? &*estimate->collectives : nullptr;
    auto written =
        WriteFile(flags.html, CostPage(*estimate->module, report, *chip, causes, estimate->advice));
    if (!written) return ReportError(written.error());
  }
  if (auto done = TellCi(flags, *estimate, limit, bounds, findings); !done) {
    return ReportError(done.error());
  }
  return ReportChecks(flags, failed, bounds);
}

void AddBudgetFlags(const Command& command, Flags& flags) {
  command.Add("--check", flags.check,
              "Budget (gshard.budget/1): exit 3 with a list of what is over it, such as "
              "budget.json (default: none)",
              {.type = "FILE"});
  command.Add("--write-budget", flags.write_budget,
              "Write a budget that this program keeps within (default: none)",
              {.type = "FILE", .is_output = true});
  command.AddOnlyWith({"--write-budget"}, [&] {
    command.Add("--head-room", flags.head_room,
                "What --write-budget adds to times and bytes; counts are exact (default: 10%)",
                {.type = "SHARE"});
  });
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  Flags flags;
  CostDiffFlags diff;
  CostSweepFlags sweep;
  CommandLine line("gshard-cost",
                   "Estimates time, traffic and memory per device.\n\nExample: gshard-cost "
                   "step.hlo --chip tpu-v3 --limit 16GiB");
  AddInputFlags(line, flags.input, flags.estimate.num_partitions);
  line.Add("-o,--output", flags.output, "Where the report goes (default: -, standard output)",
           {.type = "FILE", .is_output = true});
  flags.estimate.beside_xla = true;
  AddEstimateFlags(line, flags.estimate);
  AddGroupFlag(line, flags.estimate.cost);
  line.AddSwitch("--as-xla", flags.estimate.as_xla, kAsXlaHelp);
  line.Add("--trace", flags.trace,
           "Write the step's timeline for Perfetto: step.pftrace in its own format, with counters "
           "and arrows, step.json as a Chrome trace (default: none)",
           {.type = "FILE", .is_output = true});
  line.Add("--chakra", flags.chakra,
           "Write Chakra execution traces, one a device, and files for ASTRA-sim (default: none)",
           {.type = "DIR"});
  line.AddOnlyWith({"--chakra", "--trace"}, [&] {
    line.Add("--devices", flags.devices,
             "Devices that --chakra and --trace FILE.pftrace show one by one, such as 0,5 or 0..7 "
             "(default: all; in FILE.pftrace together)",
             {.type = "LIST"});
  });
  line.Add("--limit", flags.limit,
           "Memory limit per device, such as 16GiB: exit 3 if the peak is over it (default: none)",
           {.type = "SIZE"});
  line.Add("--top", flags.top,
           "Rows of what is alive at the memory peak (default: 12, in JSON all), such as 30",
           {.type = "N", .between = {{1, INT32_MAX}}});
  line.Add("--advice", flags.advice,
           "Suggestions to show, each applied and priced (default: 3, in JSON none, in Markdown "
           "none; of large programs fewer are tried unless it is given)",
           {.type = "N", .between = {{0, INT32_MAX}}});
  AddBudgetFlags(line, flags);
  line.Add("--html", flags.html,
           "Write the report as a page for a browser: one file, no network (default: none)",
           {.type = "FILE", .is_output = true});
  line.AddSwitch("--json", flags.json, "JSON (gshard.cost/1) instead of text");
  line.AddSwitch("--markdown", flags.markdown, "Markdown instead, for a comment on a change",
                 {"--json"});
  line.AddSwitch("--gantt", flags.gantt, "Draw the timeline under the report",
                 {"--json", "--markdown"});
  AddCiFlags(line, flags.ci);
  AddCostDiff(line, diff);
  AddCostSweep(line, sweep);
  return line.Run(argc, argv, [&] { return Run(flags); });
}
