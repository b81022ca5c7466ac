// A cost report as text for people. As JSON: core/report/cost_json.h.
#ifndef GSHARD_CORE_REPORT_COST_TEXT_H_
#define GSHARD_CORE_REPORT_COST_TEXT_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

// Does the program fit as it is written, without the flash kernels that are counted for its
// attention?
bool FitsAsWritten(const CostReport& report);

// VerdictText of its memory, and where it fits with flash kernels alone, that it does.
std::string CostVerdict(const CostReport& report);

// `top`: rows of what is alive at the memory peak.
std::string CostAsText(const Module& module, const CostReport& report, size_t top = 12);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_TEXT_H_
