// See check.h.

#include "cmd/cli/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/check/communication_check.h"
#include "core/check/findings_json.h"
#include "core/json.h"
#include "core/spmd/per_device_module.h"

namespace gshard {
namespace {

constexpr const char* kCheckSchema = "gshard.check/1";

int Refused(const CheckOptions& options, const Diagnostic& error) {
  if (options.json) PrintErrorJson(error, kCheckSchema);
  return ReportError(error);
}

std::string Summary(const CommunicationCheck& check, const DeviceGrid& grid) {
  const auto errors = std::ranges::count_if(
      check.findings, [](const CommunicationFinding& finding) { return finding.IsError(); });
  const auto warnings = static_cast<int64_t>(check.findings.size()) - errors;
  const std::string of =
      fmt::format("{} collective{} on {} device{}", check.collectives,
                  check.collectives == 1 ? "" : "s", grid.device_count(),
                  grid.device_count() == 1 ? "" : "s");
  std::string text = check.findings.empty()
                         ? fmt::format("ok: {} cannot deadlock", of)
                         : fmt::format("{}: {} error{}, {} warning{}", of, errors,
                                       errors == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
  if (!check.is_complete) text += "; too large to follow all of it";
  return text + "\n";
}

// One check that no device waits for ever, if nothing is wrong; else one a finding.
CiReport CiReportOf(const CheckOptions& options, const CommunicationCheck& check,
                    const DeviceGrid& grid) {
  CiReport report{"gshard-opt check", "", options.input, {}, ""};
  for (const CommunicationFinding& finding : check.findings) {
    report.checks.push_back(CheckOf(finding.diagnostic, std::string(finding.instruction->name())));
  }
  if (report.checks.empty()) {
    std::string summary = Summary(check, grid);
    summary.pop_back();  // the newline
    report.checks.push_back(
        {"communication", CiOutcome::kPassed, "communication", std::move(summary), "", {}});
  }
  return report;
}

}  // namespace

int RunCheck(const CheckOptions& options, PassContext& context) {
  auto read = ReadModule(options.input, options.num_partitions);
  if (!read) return Refused(options, read.error());
  Module& module = **read;
  const bool is_partitioned =
      options.partitioned.empty() ? IsPartitioned(module) : options.partitioned == "yes";
  if (!is_partitioned) {
    PerDeviceOptions way;
    way.num_partitions = options.num_partitions;
    if (auto made = MakePerDeviceModule(module, context, way); !made) {
      return Refused(options, made.error());
    }
    ReportWarnings(context.diagnostics);
  }
  const DeviceGrid grid = CountDevices(module, options.num_partitions);
  const CommunicationCheck check = CheckCommunication(module, grid);
  if (options.json) {
    Json document = {{"schema", kCheckSchema},
                     {"devices", grid.device_count()},
                     {"ok", !check.HasErrors()},
                     {"collectives", check.collectives},
                     {"complete", check.is_complete},
                     {"findings", FindingsJson(check.findings)}};
    if (auto written = WriteFile("-", document.Text()); !written) {
      return ReportError(written.error());
    }
  }
  for (const CommunicationFinding& finding : check.findings) {
    fmt::print(stderr, "{}", Render(finding.diagnostic));
  }
  if (!options.json) {
    if (auto written = WriteFile("-", Summary(check, grid)); !written) {
      return ReportError(written.error());
    }
  }
  if (auto told = WriteCiReport(options.ci, CiReportOf(options, check, grid)); !told) {
    return ReportError(told.error());
  }
  return check.HasErrors() ? kExitBadInput : kExitOk;
}

}  // namespace gshard
