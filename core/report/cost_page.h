// The report as one HTML file that needs nothing else: verdict and findings, memory over time,
// collectives by cause, timeline, roofline, sharding pictures, source lines. core/report/html has
// the page, which is put into the program; this makes its data. Equal reports give equal bytes.
#ifndef GSHARD_CORE_REPORT_COST_PAGE_H_
#define GSHARD_CORE_REPORT_COST_PAGE_H_

#include <string>

#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/report/collective_report.h"
#include "core/report/mesh_sweep.h"
#include "core/report/tried_advice.h"

namespace gshard {

// `collectives`: with recorded causes, or null; `advice`: all that was tried and helps. Data of large programs is thinned out: of the
// memory curve the highest of neighbouring points stay, of the timeline the longest events.
std::string CostPage(Module& module, const CostReport& report, const Chip& chip,
                     const CollectiveReport* collectives, const std::vector<TriedAdvice>& advice);

// A plot of time and memory over the mesh shapes, and the table.
std::string MeshSweepPage(const MeshSweep& sweep);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_PAGE_H_
