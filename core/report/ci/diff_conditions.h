// What a change may cost: `gshard-cost diff BEFORE AFTER --check
// 'step_time<+2%,peak<+1%,collectives=='`. docs/ci.md has the language.
#ifndef GSHARD_CORE_REPORT_CI_DIFF_CONDITIONS_H_
#define GSHARD_CORE_REPORT_CI_DIFF_CONDITIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/report/ci/ci_report.h"
#include "core/report/cost_diff.h"
#include "core/report/failed_check.h"
#include "ir/diagnostic.h"

namespace gshard {

struct DiffCondition {
  enum class Relation : uint8_t { kLess, kAtMost, kMore, kAtLeast, kEqual };
  enum class Bound : uint8_t {
    kBefore,   // the figure before, without more
    kShare,    // the figure before and `value` of it: 0.02 of "+2%"
    kChange,   // the figure before and `value`, in the figure's unit
    kAbsolute  // `value`
  };
  std::string text;    // as it was written
  std::string metric;  // "peak", "traffic.model", "collectives.all-gather"
  Relation relation = Relation::kLess;
  Bound bound = Bound::kBefore;
  double value = 0;
};

// Conditions with commas between them. Errors (E-COST-023): a metric, a relation or a bound that
// there is not.
Expected<std::vector<DiffCondition>> ParseDiffConditions(std::string_view text);

// A check a condition; `collectives` without a kind holds if it holds for every kind. A figure that
// is the same before and after keeps within every share and change. Axes and kinds of collectives
// that neither program has are figures of 0.
std::vector<CiCheck> CheckDiff(const CostDiff& diff, const std::vector<DiffCondition>& conditions);

// Of checks by CheckDiff, those that failed, for JSON and the exit code.
std::vector<FailedCheck> FailedChecks(const std::vector<CiCheck>& checks);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_CI_DIFF_CONDITIONS_H_
