// A cost report as JSON: schema "gshard.cost/1", docs/json.md.
#ifndef GSHARD_CORE_REPORT_COST_JSON_H_
#define GSHARD_CORE_REPORT_COST_JSON_H_

#include <string>

#include "core/cost/cost_report.h"

namespace gshard {

// `top`: rows of what is alive at the memory peak; 0: all, which then add up to it.
std::string CostAsJson(const Module& module, const CostReport& report, size_t top = 0);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_JSON_H_
