// The predicted step in Perfetto's format.
#ifndef GSHARD_CORE_REPORT_TRACE_STEP_TRACE_H_
#define GSHARD_CORE_REPORT_TRACE_STEP_TRACE_H_

#include <cstdint>
#include <span>
#include <string>

#include "core/cost/cost_report.h"
#include "ir/module.h"

namespace gshard {

// A lane a stream of the timeline, counters of memory and of what goes over links, and of a program
// that runs in stages a lane a stage, with arrows along each micro-batch. All devices have the same
// timeline, so it is shown once; where `devices` names some, once for each of them, with arrows
// between the members of a collective. Loops are drawn with one trip, as in the report's timeline.
// Errors (E-RUN-GROUPS): groups of collectives that cannot be.
Expected<std::string> StepAsPerfetto(const Module& module, const CostReport& report,
                                     std::span<const int64_t> devices);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRACE_STEP_TRACE_H_
