// See timeline_text.h.

#include "core/report/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/json.h"
#include "core/report/pipeline_text.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

constexpr double kShownShare = 0.02;  // of the step that a loop's own chart is worth
constexpr double kMicroseconds = 1e6;

char LetterOf(WorkClass work_class) {
  switch (work_class) {
    case WorkClass::kDot:
      return 'D';
    case WorkClass::kAttention:
      return 'A';
    case WorkClass::kMovement:
      return 'M';
    case WorkClass::kOther:
      return 'o';
    case WorkClass::kCollective:
      return '#';
    case WorkClass::kLoop:
      return '=';
  }
  return '?';
}

// The events inside `parent` (-1: of the entry), drawn from `from` to `to`.
std::string Chart(const Timeline& timeline, int parent, double from, double to, int width) {
  const double column_s = (to - from) / width;
  size_t name_width = 0;
  for (const std::string& stream : timeline.streams)
    name_width = std::max(name_width, stream.size());
  std::string out;
  for (size_t stream = 0; stream < timeline.streams.size(); ++stream) {
    // Each column shows what takes most of it.
    std::string row(static_cast<size_t>(width), '.');
    std::vector<double> covered(static_cast<size_t>(width));
    bool any = false;
    for (const TimelineEvent& event : timeline.events) {
      if (event.parent != parent || event.stream != static_cast<int>(stream)) continue;
      any = true;
      int first = std::clamp(static_cast<int>((event.start_s - from) / column_s), 0, width - 1);
      int last = std::clamp(static_cast<int>((event.end_s - from) / column_s), first, width - 1);
      for (int column = first; column <= last; ++column) {
        double begin = from + column * column_s;
        double part = std::min(event.end_s, begin + column_s) - std::max(event.start_s, begin);
        auto at = static_cast<size_t>(column);
        if (part <= covered[at]) continue;
        covered[at] = part;
        row[at] = LetterOf(event.work_class);
      }
    }
    if (any) out += fmt::format("  {:<{}} |{}|\n", timeline.streams[stream], name_width, row);
  }
  return out;
}

// A pipeline's stages as a process of their own, a thread each, since its first tick.
void AddStages(const PipelineReport& pipeline, Json& events) {
  auto add_name = [&](const char* what, int64_t thread, const std::string& name) {
    events.Append(
        {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  add_name("process_name", 0, "stages of " + std::string(pipeline.loop->name()));
  for (size_t k = 0; k < pipeline.stages.size(); ++k) {
    const auto thread = static_cast<int64_t>(k);
    add_name("thread_name", thread, fmt::format("stage {}", k));
    for (const PipelineTick& tick : pipeline.ticks) {
      const PipelinePass& pass = pipeline.passes[tick.pass[k]];
      if (pass.is_idle) continue;
      std::string name(PassKindName(pass));
      if (!tick.microbatch.empty() && !pass.is_padding)
        name += fmt::format(" {}", tick.microbatch[k]);
      events.Append({{"ph", "X"},
                     {"name", name},
                     {"cat", PassKindName(pass)},
                     {"pid", 1},
                     {"tid", thread},
                     {"ts", tick.stage_s[k] * kMicroseconds},
                     {"dur", pass.time_s * kMicroseconds},
                     {"args", {{"branch", pass.computation->name()}}}});
    }
  }
}

}  // namespace

std::string TimelineAsGantt(const CostReport& report, int width) {
  const Timeline& timeline = report.timeline;
  if (timeline.events.empty() || report.step_time_s <= 0) return "";
  std::string out = fmt::format(
      "\ntimeline, {} (D dot, A attention, M movement, o other, # collective, = loop)\n",
      HumanSeconds(report.step_time_s));
  out += Chart(timeline, -1, 0, report.step_time_s, width);
  if (report.pipeline) out += PipelineGantt(*report.pipeline, width) + "\n";
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& loop = timeline.events[i];
    const double all = (loop.end_s - loop.start_s) * loop.trip_count;
    if (loop.work_class != WorkClass::kLoop || all < kShownShare * report.step_time_s) continue;
    double to = loop.start_s;
    std::map<double, double> kinds;  // trips by where one of them is drawn
    for (const TimelineEvent& event : timeline.events) {
      if (event.parent != static_cast<int>(i)) continue;
      to = std::max(to, event.end_s);
      kinds[event.kind_start_s] = event.trip_count / loop.trip_count;
    }
    if (to <= loop.start_s) continue;
    double trips = 0;
    for (const auto& [start, count] : kinds) trips += count;
    const std::string_view shown = trips == 1         ? "1 trip"
                                   : kinds.size() > 1 ? "trips, one of each kind"
                                                      : "trips, one of them";
    out += loop.instruction->name();
    out += trips == 1 ? fmt::format(": {}\n", shown) : fmt::format(": {:g} {}\n", trips, shown);
    out += Chart(timeline, static_cast<int>(i), loop.start_s, to, width);
  }
  return out;
}

std::string TimelineAsTrace(const Module& module, const CostReport& report) {
  Json events = Json::Array();
  events.Append({{"ph", "M"},
                 {"name", "process_name"},
                 {"pid", 0},
                 {"args", {{"name", module.name() + " on " + report.chip}}}});
  for (size_t stream = 0; stream < report.timeline.streams.size(); ++stream) {
    events.Append({{"ph", "M"},
                   {"name", "thread_name"},
                   {"pid", 0},
                   {"tid", static_cast<int64_t>(stream)},
                   {"args", {{"name", report.timeline.streams[stream]}}}});
  }
  const SourceLines lines(module);
  for (const TimelineEvent& event : report.timeline.events) {
    events.Append({{"ph", "X"},
                   {"name", event.instruction->name()},
                   {"cat", WorkClassName(event.work_class)},
                   {"pid", 0},
                   {"tid", event.stream},
                   {"ts", event.start_s * kMicroseconds},
                   {"dur", (event.end_s - event.start_s) * kMicroseconds},
                   {"args",
                    {{"opcode", OpcodeName(event.instruction->opcode())},
                     {"executions", event.trip_count},
                     {"critical", event.is_critical},
                     {"op_name", OpNameOf(*event.instruction)},
                     {"source", lines.TextOf(*event.instruction)}}}});
  }
  if (report.pipeline) AddStages(*report.pipeline, events);
  Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.Text();
}

}  // namespace gshard
