// See cost_markdown.h.

#include "core/report/cost_markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/analysis/axis_text.h"
#include "core/report/cost_text.h"
#include "core/report/memory_text.h"
#include "core/report/pipeline_text.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"

namespace gshard {
namespace {

std::string BytesCell(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Figures(const CostReport& report) {
  TextTable table{{{"step time", true},
                   {"compute", true},
                   {"exposed communication", true},
                   {"MFU", true},
                   {"peak memory", true},
                   {"arguments", true},
                   {"outputs", true},
                   {"temporaries", true}},
                  {}};
  table.rows.push_back(
      {HumanSeconds(report.step_time_s), HumanSeconds(report.compute_time_s),
       HumanSeconds(report.exposed_communication_s), fmt::format("{:.1f}%", 100 * report.mfu),
       BytesCell(report.memory.peak_bytes), BytesCell(report.memory.argument_bytes),
       BytesCell(report.memory.output_bytes), BytesCell(report.memory.temp_bytes)});
  return TableAsMarkdown(table);
}

std::string Collectives(const CostReport& report) {
  TextTable table{{{"collective", false},
                   {"axes", false},
                   {"count", true},
                   {"bytes a device", true},
                   {"time", true},
                   {"exposed", true},
                   {"largest because of", false}},
                  {}};
  for (const CollectiveRow& row : report.collectives) {
    table.rows.push_back({row.kind, AxesInWords(row.axes, report.mesh),
                          fmt::format("{}", row.count), HumanBytes(row.bytes_per_device),
                          HumanSeconds(row.time_s), HumanSeconds(row.exposed_s), row.Because()});
  }
  return table.rows.empty() ? "" : fmt::format("\n{}", TableAsMarkdown(table));
}

std::string Pipeline(const CostReport& report) {
  if (!report.pipeline) return "";
  return fmt::format("\n{}\n{}", PipelineHeadline(*report.pipeline, report.step_time_s),
                     PipelineTable(*report.pipeline, true));
}

std::string Groups(const CostReport& report) {
  TextTable table{
      {{"group", false}, {"time", true}, {"work", true}, {"HBM traffic", true}, {"sent", true}},
      {}};
  for (const WorkRow& row : report.by_group) {
    table.rows.push_back({row.key.empty() ? "-" : row.key, HumanSeconds(row.time_s),
                          HumanFlops(row.flops), HumanBytes(row.bytes),
                          HumanBytes(row.communication_bytes)});
  }
  return table.rows.empty() ? "" : fmt::format("\n{}", TableAsMarkdown(table));
}

std::string AtPeakTable(const Module& module, const MemoryReport& memory, size_t top) {
  const BufferPlaces places(module, memory);
  TextTable table{{{"bytes", true},
                   {"alive at the peak", false},
                   {"on a device", false},
                   {"sharding", false},
                   {"copies along", false},
                   {"source", false}},
                  {}};
  for (size_t i = 0; i < std::min(top, memory.at_peak.size()); ++i) {
    const LiveBuffer& buffer = memory.at_peak[i];
    table.rows.push_back({BytesCell(buffer.bytes), std::string(buffer.instruction->name()),
                          ToString(buffer.shape, false), buffer.sharding_text, buffer.free_axes,
                          places.Of(buffer)});
  }
  return table.rows.empty() ? "" : fmt::format("\n{}", TableAsMarkdown(table));
}

}  // namespace

std::string CostAsMarkdown(const Module& module, const CostReport& report, size_t top) {
  std::string verdict = CostVerdict(report);
  if (!verdict.empty()) verdict = fmt::format("**{}**\n\n", verdict.substr(0, verdict.find('\n')));
  return fmt::format("{}{}: {} device{}, {}\n\n", verdict, module.name(), report.devices,
                     report.devices == 1 ? "" : "s", report.chip) +
         Figures(report) + Collectives(report) + Pipeline(report) + Groups(report) +
         AtPeakTable(module, report.memory, top);
}

}  // namespace gshard
