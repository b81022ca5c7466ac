// Plans as the report tells them: figures from a plan's text, and which plan comes first.
#ifndef GSHARD_CORE_AUTOSHARD_TOLD_PLAN_H_
#define GSHARD_CORE_AUTOSHARD_TOLD_PLAN_H_

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/autoshard/auto_sharding.h"

namespace gshard::autoshard {

// HLO that this program printed itself.
Expected<std::unique_ptr<Module>> ParsePlan(const std::string& text);

struct ToldFigures {
  AutoPlan plan;  // time, memory, what takes most; the rest as AutoPlan has it by default
  std::string overlap;
};

// The plan with this text, priced as gshard-cost prices it with the same flags. Errors: what
// partitioning refuses.
Expected<ToldFigures> FiguresOfText(const std::string& text, const AutoOptions& options);

// True if `a` comes before `b`: a plan that fits before one that does not; of two that fit the
// faster one, of two that do not the one with the smaller peak.
bool ComesFirst(const AutoPlan& a, const AutoPlan& b);

// Plans whose time and memory differ by no more than this share are reported once.
inline constexpr double kTellsApart = .01;

// True if two plans (AutoPlan or StepFigures) differ by more than kTellsApart in time or in memory.
template <typename Figures>
bool AreApart(const Figures& a, const Figures& b) {
  const auto apart = [](double x, double y) { return std::abs(x - y) > kTellsApart * y; };
  return apart(a.step_time_s, b.step_time_s) ||
         apart(static_cast<double>(a.peak_bytes), static_cast<double>(b.peak_bytes));
}

// Sets `bound_s` and `gap` by `perfect_s` and the plans.
void SetBound(AutoResult& result);

// Sets `pareto` of plans of which no other is better in time or peak memory and no worse in both.
void MarkPareto(std::vector<AutoPlan>& plans);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_TOLD_PLAN_H_
