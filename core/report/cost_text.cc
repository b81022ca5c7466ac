// Views of a cost report. See cost_text.h.

#include "core/report/cost_text.h"

#include <fmt/format.h>

#include "core/report/memory_text.h"
#include "core/report/quantity_text.h"

namespace gshard {
namespace {

std::string AxesText(const std::vector<std::string>& axes) {
  return axes.empty() ? "-" : fmt::format("{}", fmt::join(axes, "+"));
}

}  // namespace

std::string CostAsText(const Module& module, const CostReport& report, size_t top) {
  std::string out = VerdictText(report.memory);
  out += fmt::format("{}: {} device{}, {}\n", module.name(), report.devices,
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
  out += AtPeakText(module, memory, top);
  return out;
}

}  // namespace gshard
