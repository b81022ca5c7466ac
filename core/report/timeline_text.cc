// See timeline_text.h.

#include "core/report/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

constexpr double kShownShare = 0.02;  // of the step that a loop's own chart is worth

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

}  // namespace

std::string TimelineAsGantt(const CostReport& report, int width) {
  const Timeline& timeline = report.timeline;
  if (timeline.events.empty() || report.step_time_s <= 0) return "";
  std::string out =
      fmt::format("\ntimeline, {} (D dot, A attention, M movement, o other, # collective, = loop)\n",
                  HumanSeconds(report.step_time_s));
  out += Chart(timeline, -1, 0, report.step_time_s, width);
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& loop = timeline.events[i];
    const double all = (loop.end_s - loop.start_s) * loop.trip_count;
    if (loop.work_class != WorkClass::kLoop || all < kShownShare * report.step_time_s) continue;
    double to = loop.start_s, trips = 1;
    for (const TimelineEvent& event : timeline.events) {
      if (event.parent != static_cast<int>(i)) continue;
      to = std::max(to, event.end_s);
      trips = event.trip_count / loop.trip_count;
    }
    if (to <= loop.start_s) continue;
    out += fmt::format("{}: {:g} trip{}, one of them\n", loop.instruction->name(), trips,
                       trips == 1 ? "" : "s");
    out += Chart(timeline, static_cast<int>(i), loop.start_s, to, width);
  }
  return out;
}

std::string TimelineAsTrace(const Module& module, const CostReport& report) {
  constexpr double kMicroseconds = 1e6;
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
                     {"source", SourceLineOf(module, *event.instruction)}}}});
  }
  Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.Text();
}

}  // namespace gshard
