// See priced_plan.h.

#include "core/autoshard/priced_plan.h"

#include <optional>

namespace gshard::autoshard {
namespace {

// Is `a` the better one for its state, or because it alone fits? Nothing: both are alike in that.
std::optional<bool> BetterByStateAndFit(const PricedPlan& a, const PricedPlan& b,
                                        int64_t limit_bytes) {
  if (a.figures.returns_state_alike != b.figures.returns_state_alike) {
    return a.figures.returns_state_alike;
  }
  const bool a_fits = Fits(a, limit_bytes);
  if (a_fits != Fits(b, limit_bytes)) return a_fits;
  return std::nullopt;
}

}  // namespace

bool Fits(const PricedPlan& plan, int64_t limit_bytes) {
  return limit_bytes == 0 || plan.figures.step.peak_bytes <= limit_bytes;
}

bool IsBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes) {
  if (const auto better = BetterByStateAndFit(a, b, limit_bytes)) return *better;
  const StepFigures& x = a.figures.step;
  const StepFigures& y = b.figures.step;
  if (!Fits(a, limit_bytes) && x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  if (x.step_time_s < y.step_time_s * (1 - kSameTime)) return true;
  // A chain of such steps must not make the time longer.
  if (x.step_time_s > y.step_time_s) return false;
  if (x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  return a.annotations < b.annotations;
}

bool IsClearlyBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes) {
  if (const auto better = BetterByStateAndFit(a, b, limit_bytes)) return *better;
  const StepFigures& x = a.figures.step;
  const StepFigures& y = b.figures.step;
  if (!Fits(a, limit_bytes)) return x.peak_bytes < y.peak_bytes;
  const auto is_less = [](double p, double q) { return p < q * (1 - kSameTime); };
  return is_less(x.step_time_s, y.step_time_s) ||
         is_less(static_cast<double>(x.peak_bytes), static_cast<double>(y.peak_bytes));
}

}  // namespace gshard::autoshard
