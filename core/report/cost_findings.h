// What is worst about a program's cost, and what to do about it: the first thing that a page shows.
#ifndef GSHARD_CORE_REPORT_COST_FINDINGS_H_
#define GSHARD_CORE_REPORT_COST_FINDINGS_H_

#include <string>
#include <vector>

#include "core/cost/cost_report.h"
#include "core/report/collective_report.h"
#include "core/report/tried_advice.h"

namespace gshard {

struct CostFinding {
  std::string title;   // "1.50 GiB at the peak are copies"
  std::string detail;  // which tensor, where, why
  std::string fix;     // what helps, with its figures, or where to read on; may be empty
  std::string view;    // of the page: "memory", "collectives", "roofline"
  std::string name;    // of an instruction, may be empty
  double weight = 0;   // the share of the step time or of the peak that it costs
};

// The `most` heaviest, heaviest first, those of less than a hundredth left out. `collectives`: with
// recorded causes, or null; `advice`: all that was tried and helps, the best first. Meshes are
// interned in the module's context.
std::vector<CostFinding> WorstFindings(Module& module, const CostReport& report,
                                       const CollectiveReport* collectives,
                                       const std::vector<TriedAdvice>& advice, size_t most = 3);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_FINDINGS_H_
