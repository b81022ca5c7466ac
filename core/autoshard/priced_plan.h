// A plan with what it costs, and which of two is better. docs/auto.md.
#ifndef GSHARD_CORE_AUTOSHARD_PRICED_PLAN_H_
#define GSHARD_CORE_AUTOSHARD_PRICED_PLAN_H_

#include <cstdint>

#include "core/autoshard/plan_pricer.h"
#include "core/autoshard/plan_space.h"

namespace gshard::autoshard {

// Times so near are one: what is left to differ is rounding and order.
constexpr double kSameTime = 1e-3;

struct PricedPlan {
  Plan plan;
  PlanFigures figures;
  int64_t annotations = 0;  // number of instructions that it annotates
};

// `limit_bytes`: 0: none.
bool Fits(const PricedPlan& plan, int64_t limit_bytes);

// True if `a` is better than `b`. A plan that fits is better than one that does not; of two that
// fit the faster one, of two that do not the one with the smaller peak; of times within a
// thousandth of each other the smaller peak, then the fewer annotations.
bool IsBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes);

// True if `a` is better than `b` by more than annotations are worth: it alone returns its state
// alike or fits, or is faster or smaller by more than a thousandth; where neither fits, smaller.
bool IsClearlyBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PRICED_PLAN_H_
