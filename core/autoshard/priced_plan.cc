// See priced_plan.h.

#include "core/autoshard/priced_plan.h"

namespace gshard::autoshard {

bool Fits(const PricedPlan& plan, int64_t limit_bytes) {
  return limit_bytes == 0 || plan.figures.step.peak_bytes <= limit_bytes;
}

bool IsBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes) {
  if (a.figures.returns_state_alike != b.figures.returns_state_alike) {
    return a.figures.returns_state_alike;
  }
  const StepFigures& x = a.figures.step;
  const StepFigures& y = b.figures.step;
  const bool a_fits = Fits(a, limit_bytes);
  if (a_fits != Fits(b, limit_bytes)) return a_fits;
  if (!a_fits && x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  if (x.step_time_s < y.step_time_s * (1 - kSameTime)) return true;
  // A chain of such steps must not make the time longer.
  if (x.step_time_s > y.step_time_s) return false;
  if (x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  return a.annotations < b.annotations;
}

bool IsClearlyBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes) {
  if (a.figures.returns_state_alike != b.figures.returns_state_alike) {
    return a.figures.returns_state_alike;
  }
  const StepFigures& x = a.figures.step;
  const StepFigures& y = b.figures.step;
  const bool a_fits = Fits(a, limit_bytes);
  if (a_fits != Fits(b, limit_bytes)) return a_fits;
  if (!a_fits) return x.peak_bytes < y.peak_bytes;
  const auto is_less = [](double p, double q) { return p < q * (1 - kSameTime); };
  return is_less(x.step_time_s, y.step_time_s) ||
         is_less(static_cast<double>(x.peak_bytes), static_cast<double>(y.peak_bytes));
}

}  // namespace gshard::autoshard
