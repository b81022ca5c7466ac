// A cost report as JSON: schema "gshard.cost/1", docs/json.md.
#ifndef GSHARD_CORE_REPORT_COST_JSON_H_
#define GSHARD_CORE_REPORT_COST_JSON_H_

#include <span>
#include <string>

#include "core/check/finding.h"
#include "core/cost/cost_report.h"
#include "core/json.h"
#include "core/report/failed_check.h"
#include "core/report/tried_advice.h"

namespace gshard {

// What XLA's partitioner would do, as the lists of the keys of these names.
struct AsXlaLists {
  Json as_xla = Json::Array();
  Json xla_full_rematerializations = Json::Array();
};

// `top`: rows of what is alive at the memory peak; 0: all, which then add up to it. `findings`: of
// the program's communication.
std::string CostAsJson(const Module& module, const CostReport& report, size_t top = 0,
                       const CommunicationFindings& findings = {},
                       std::span<const FailedCheck> failed = {},
                       std::span<const TriedAdvice> advice = {}, AsXlaLists xla = {});

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COST_JSON_H_
