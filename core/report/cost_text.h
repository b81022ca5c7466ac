// A cost report as text for people. As JSON: core/report/cost_json.h.
#ifndef GSHARD_CORE_REPORT_COST_TEXT_H_
#define GSHARD_CORE_REPORT_COST_TEXT_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

std::string CostAsText(const Module& module, const CostReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_TEXT_H_
