// A cost report as markdown, for a comment on a change or a summary of CI.
#ifndef GSHARD_CORE_REPORT_COST_MARKDOWN_H_
#define GSHARD_CORE_REPORT_COST_MARKDOWN_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

// The verdict, the figures, collectives by axes, and `top` tensors of those alive at the peak.
std::string CostAsMarkdown(const Module& module, const CostReport& report, size_t top = 12);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_MARKDOWN_H_
