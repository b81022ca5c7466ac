// Views of a cost report. See cost_text.h.

#include "core/report/cost_text.h"

#include <fmt/format.h>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

std::string AxesText(const std::vector<std::string>& axes) {
  return axes.empty() ? "-" : fmt::format("{}", fmt::join(axes, "+"));
}

}  // namespace

std::string CostAsText(const Module& module, const CostReport& report) {
  std::string out = fmt::format("{}: {} device{}, {}\n", module.name(), report.devices,
                                report.devices == 1 ? "" : "s", report.chip);
  out += fmt::format("  step time      {:>12}   compute {}, communication {}\n",
                     HumanSeconds(report.step_time_s), HumanSeconds(report.compute_time_s),
                     HumanSeconds(report.exposed_communication_s));
  out += fmt::format(
      "  work a device  {:>12}   useful {}, utilisation {:.1f}% (MFU), HBM traffic {}\n",
      HumanFlops(report.flops_per_device), HumanFlops(report.useful_flops_per_device),
      100 * report.mfu, HumanBytes(report.hbm_bytes_per_device));
  const MemoryReport& memory = report.memory;
  out += fmt::format("  peak memory    {:>12}   arguments {}, outputs {}, temporaries {}\n",
                     HumanBytes(static_cast<double>(memory.peak_bytes)),
                     HumanBytes(static_cast<double>(memory.argument_bytes)),
                     HumanBytes(static_cast<double>(memory.output_bytes)),
                     HumanBytes(static_cast<double>(memory.temp_bytes)));
  if (report.unknown_trip_counts > 0) {
    out += fmt::format("  note: {} while loop(s) with no known trip count are counted once\n",
                       report.unknown_trip_counts);
  }
  if (!report.collectives.empty()) {
    out += fmt::format("\n  {:<22}{:<20}{:>8}{:>16}{:>12}  largest because of\n", "collective",
                       "axes", "count", "bytes a device", "time");
    for (const CollectiveRow& row : report.collectives) {
      out += fmt::format("  {:<22}{:<20}{:>8}{:>16}{:>12}  {}\n", row.kind, AxesText(row.axes),
                         row.count, HumanBytes(row.bytes_per_device), HumanSeconds(row.time_s),
                         row.cause);
    }
  }
  if (!memory.at_peak.empty()) {
    out += fmt::format("\n  {:>12}  alive at the memory peak\n", "bytes");
    constexpr size_t kRows = 12;
    for (size_t i = 0; i < std::min(kRows, memory.at_peak.size()); ++i) {
      const LiveBuffer& buffer = memory.at_peak[i];
      std::string place = SourceLineOf(module, *buffer.instruction);
      out += fmt::format("  {:>12}  {} {}{}\n", HumanBytes(static_cast<double>(buffer.bytes)),
                         buffer.instruction->name(), ToString(buffer.instruction->shape(), false),
                         place.empty() ? "" : "  " + place);
    }
    if (memory.at_peak.size() > kRows) {
      double rest = 0;
      for (size_t i = kRows; i < memory.at_peak.size(); ++i)
        rest += static_cast<double>(memory.at_peak[i].bytes);
      out += fmt::format("  {:>12}  in {} more\n", HumanBytes(rest), memory.at_peak.size() - kRows);
    }
  }
  return out;
}

std::string CostAsJson(const Module& module, const CostReport& report) {
  Json at_peak = Json::Array();
  for (const LiveBuffer& buffer : report.memory.at_peak) {
    at_peak.Append({{"name", buffer.instruction->name()},
                    {"bytes", buffer.bytes},
                    {"op_name", OpNameOf(*buffer.instruction)},
                    {"source", SourceLineOf(module, *buffer.instruction)}});
  }
  Json collectives = Json::Array();
  for (const CollectiveRow& row : report.collectives) {
    collectives.Append({{"kind", row.kind},
                        {"axes", row.axes},
                        {"count", row.count},
                        {"bytes_per_device", row.bytes_per_device},
                        {"time_s", row.time_s},
                        {"cause", row.cause}});
  }
  Json document = {{"schema", "gshard.cost/1"},
                   {"module", module.name()},
                   {"devices", report.devices},
                   {"chip", report.chip},
                   {"step_time_s", report.step_time_s},
                   {"compute_time_s", report.compute_time_s},
                   {"exposed_communication_s", report.exposed_communication_s},
                   {"flops_per_device", report.flops_per_device},
                   {"transcendentals_per_device", report.transcendentals_per_device},
                   {"useful_flops_per_device", report.useful_flops_per_device},
                   {"mfu", report.mfu},
                   {"hfu", report.hfu},
                   {"hbm_bytes_per_device", report.hbm_bytes_per_device},
                   {"unknown_trip_counts", report.unknown_trip_counts},
                   {"memory",
                    {{"peak_bytes", report.memory.peak_bytes},
                     {"argument_bytes", report.memory.argument_bytes},
                     {"output_bytes", report.memory.output_bytes},
                     {"temp_bytes", report.memory.temp_bytes},
                     {"at_peak", std::move(at_peak)}}},
                   {"collectives", std::move(collectives)}};
  return document.Text();
}

}  // namespace gshard
