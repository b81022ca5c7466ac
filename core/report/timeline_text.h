// Views of a timeline: a Chrome trace, which Perfetto (ui.perfetto.dev) opens, and a Gantt chart in
// characters.
#ifndef GSHARD_CORE_REPORT_TIMELINE_TEXT_H_
#define GSHARD_CORE_REPORT_TIMELINE_TEXT_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

// One thread a stream; of every loop one trip is drawn at its beginning, with the number of trips
// in its arguments.
std::string TimelineAsTrace(const Module& module, const CostReport& report);

// A row a stream, `width` columns for the whole time: D dots, A attention, M movement, o other
// work, = a loop, # collectives. Loops that take a fiftieth of the step or more follow, one trip
// each.
std::string TimelineAsGantt(const CostReport& report, int width = 72);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TIMELINE_TEXT_H_
