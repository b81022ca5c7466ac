// A cost report as text for people and as JSON ("gshard.cost/1", docs/json.md).
#ifndef GSHARD_CORE_REPORT_COST_TEXT_H_
#define GSHARD_CORE_REPORT_COST_TEXT_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

std::string CostAsText(const Module& module, const CostReport& report);
std::string CostAsJson(const Module& module, const CostReport& report);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_TEXT_H_
