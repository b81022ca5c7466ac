// Upper bounds on what a program costs, for a CI that fails when a change makes it dearer.
// `gshard-cost --check`, `--write-budget`; the file (gshard.budget/1) is docs/cost.md's "Budgets".
#ifndef GSHARD_CORE_REPORT_BUDGET_H_
#define GSHARD_CORE_REPORT_BUDGET_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost/cost_report.h"
#include "ir/diagnostic.h"

namespace gshard {

// Bounds, or, made of a report, the figures that are to keep within them. What is not there is not
// bounded, or not known.
struct Budget {
  std::optional<double> step_time_s, peak_bytes;
  // Sent by one device over links of a mesh axis; a collective along two axes counts for both.
  // "*": all that it sends.
  std::map<std::string, double> bytes_per_device;
  std::map<std::string, double> collectives;  // executions in a step by kind; "*": of all kinds
  std::optional<double> full_rematerializations;
  // Of the estimate that a budget was made of, or of this one; empty: not told. No bound.
  std::string chip;
};

// Of collectives, as budgets and conditions name them: "all-gather", ..
const std::vector<std::string>& CollectiveKinds();

// Unknown keys and kinds of collectives, and what is no number, are errors (E-COST-021) of `file`.
Expected<Budget> ParseBudget(std::string_view json, const std::string& file);

// The report's figures: all axes of `mesh` (may be null), used or not, and all kinds of
// collectives. `full_rematerializations`: where known.
Budget FiguresFor(const CostReport& report, const Mesh* mesh,
                  std::optional<int64_t> full_rematerializations);

struct BoundedFigure {
  std::string key;  // "bytes_per_device.model"
  double value = 0, allowed = 0;
  bool IsExceeded() const;
};
// All that the budget bounds, in the order of Budget's members. Errors (E-COST-022): a bound on an
// axis that the mesh does not have, or on what is not known.
Expected<std::vector<BoundedFigure>> BoundedFigures(const Budget& figures, const Budget& budget,
                                                    const std::string& file);
// Value and bound of one in words: "3.50 MiB", "2 MiB".
std::string BoundText(const std::string& key, double value);
// Where the time is bounded and budget and figures are of different chips: that this is so.
std::optional<Diagnostic> ChipWarning(const Budget& figures, const Budget& budget,
                                      const std::string& file);
// A table of the exceeded ones, one line each.
std::string ExceededAsText(const std::vector<BoundedFigure>& bounds);

// gshard.budget/1 of these figures. Times and bytes have `head_room` (0.1: a tenth) added; counts
// are what they are.
std::string BudgetAsJson(const Budget& figures, double head_room);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_BUDGET_H_
