// The limit and the budget of an estimate as checks, each with the line of the user's program that
// most of its figure comes from. `gshard-cost --check --github` and the like.
#ifndef GSHARD_CORE_REPORT_CI_COST_CHECKS_H_
#define GSHARD_CORE_REPORT_CI_COST_CHECKS_H_

#include <optional>
#include <vector>

#include "core/cost/cost_report.h"
#include "core/report/budget.h"
#include "core/report/ci/ci_report.h"
#include "core/report/collective_report.h"

namespace gshard {

// `bounds`: all that a budget bounds, kept or not. `limit_bytes`: of a device's memory, where one
// was given. `collectives`: where they are known, for the lines of full rematerialisations. The
// report is of `module`.
std::vector<CiCheck> CostChecks(const Module& module, const CostReport& report,
                                const std::vector<BoundedFigure>& bounds,
                                std::optional<int64_t> limit_bytes,
                                const CollectiveReport* collectives);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_COST_CHECKS_H_
