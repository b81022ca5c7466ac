// See told_plan.h.

#include "core/autoshard/told_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/estimate/device_program.h"
#include "core/report/quantity_text.h"
#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

// Largest part of the step's time, in words.
std::string WhyOf(const CostReport& report) {
  if (report.step_time_s <= 0) return "";
  const CostBreakdown& parts = report.breakdown;
  std::pair<double, std::string> largest{parts.dot_s, "dots"};
  for (const auto& [seconds, name] :
       {std::pair<double, const char*>{parts.attention_s, "attention"},
        {parts.movement_s, "movement"},
        {parts.other_s, "elementwise"},
        {parts.bubble_s, "bubble"}}) {
    if (seconds > largest.first) largest = {seconds, name};
  }
  if (parts.exposed_communication_s > largest.first) {
    const auto row = std::ranges::max_element(report.collectives, {}, &CollectiveRow::exposed_s);
    std::string name = "communication";
    if (row != report.collectives.end()) {
      name = fmt::format("{} over {}", row->kind, fmt::join(row->axes, "+"));
      largest = {row->exposed_s, name};
    } else {
      largest = {parts.exposed_communication_s, name};
    }
  }
  return fmt::format("{} {:.0f} %", largest.second, 100 * largest.first / report.step_time_s);
}

}  // namespace

Expected<std::unique_ptr<Module>> ParsePlan(const std::string& text) {
  return ParseModule(SourceText::FromString("plan", text));
}

Expected<ToldFigures> FiguresOfText(const std::string& text, const AutoOptions& options) {
  auto module = ParsePlan(text);
  if (!module) return Fail(std::move(module.error()));
  auto made = MakeDeviceProgram(std::move(*module), options.pricing.program);
  if (!made) return Fail(std::move(made.error()));
  auto report = ReportCost(*made, options.pricing.chip, options.pricing.cost);
  if (!report) return Fail(std::move(report.error()));
  ToldFigures told;
  told.plan.step_time_s = report->step_time_s;
  told.plan.exposed_communication_s = report->exposed_communication_s;
  told.plan.mfu = report->mfu;
  told.plan.bubble_share = report->pipeline ? report->pipeline->bubble_share : 0;
  told.plan.peak_bytes = report->memory.peak_bytes;
  told.plan.fits = options.limit_bytes == 0 || told.plan.peak_bytes <= options.limit_bytes;
  told.plan.why = WhyOf(*report);
  if (!report->memory.at_peak.empty()) {
    const LiveBuffer& row = report->memory.at_peak.front();
    told.plan.largest_at_peak =
        fmt::format("{} {} of {}", BufferClassName(row.kind),
                    HumanBytes(static_cast<double>(row.bytes)), row.instruction->name());
  }
  told.overlap = std::string(OverlapName(report->overlap));
  return told;
}

bool ComesFirst(const AutoPlan& a, const AutoPlan& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? a.step_time_s < b.step_time_s : a.peak_bytes < b.peak_bytes;
}

void SetBound(AutoResult& result) {
  result.bound_s = result.perfect_s;
  for (const AutoPlan& plan : result.plans) {
    result.bound_s = std::min(result.bound_s, plan.step_time_s - plan.exposed_communication_s);
  }
  result.gap = result.bound_s > 0 ? result.plans[0].step_time_s / result.bound_s - 1 : 0;
}

void MarkPareto(std::vector<AutoPlan>& plans) {
  for (AutoPlan& plan : plans) {
    plan.pareto = std::ranges::none_of(plans, [&](const AutoPlan& other) {
      return other.step_time_s <= plan.step_time_s && other.peak_bytes <= plan.peak_bytes &&
             (other.step_time_s < plan.step_time_s || other.peak_bytes < plan.peak_bytes);
    });
  }
}

}  // namespace gshard::autoshard
