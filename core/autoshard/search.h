// Looks for the plan of the least step time that fits a memory limit. docs/auto.md tells how, and
// what its answers claim.
//
// Where there are few plans all are priced. Else plans by names first (seeds.h) and those that
// elimination finds by a model of its own (plan_model.h), then from the best of them one group at a
// time changed for the better, the fastest brought down to the limit, then pairs of groups and
// three that touch; at the end annotations that change nothing go. Every plan is propagated;
// each different program that comes of it is partitioned and priced in full. A round is a fixed
// list of plans and its best is taken when all are priced: the answer does not depend on the number
// of threads, and limits count evaluations, not seconds.
#ifndef GSHARD_CORE_AUTOSHARD_SEARCH_H_
#define GSHARD_CORE_AUTOSHARD_SEARCH_H_

#include <optional>
#include <string>
#include <vector>

#include "core/autoshard/plan_pricer.h"
#include "core/autoshard/plan_space.h"
#include "core/autoshard/priced_plan.h"

namespace gshard::autoshard {

struct SearchOptions {
  int64_t limit_bytes = 0;        // of one device; 0: none
  int64_t evaluations = 1500;     // most plans to price; a few more are possible
  bool zero = true;               // may weight updates be cut?
  double most_enumerated = 2000;  // where there are so many plans at most, all are priced
  // Where all are not priced, a plan that fits and whose time is within this share of perfect
  // scaling's is improved by single changes, and ends the search; 0: none does. One that is faster
  // still does not: its kernels are faster than their share, and others may be so, too.
  double within = 0;
  double perfect_s = 0;
};

// The time of the fastest plan that elimination found (plan_model.h): by its own model, and priced.
struct ModelledTime {
  double by_model_s = 0, priced_s = 0;
};

struct SearchResult {
  // The best first: those that fit by time, then the others by peak. Not empty.
  std::vector<PricedPlan> plans;
  // The fastest of tensor parallelism and that of FSDP (seeds.h), whether they fit or not.
  std::vector<PricedPlan> of_styles;
  bool is_exhaustive = false;            // every plan of the space was priced
  bool names_exhausted = false;          // every plan by up to two names per axis was priced
  std::optional<ModelledTime> modelled;  // of elimination, where it was tried
  int64_t name_plans = 0;                // plans by names that were priced
  // No change of one group made the best plan better, before annotations were dropped that changed
  // hardly anything.
  bool is_local_optimum = false;
  int64_t moves = 0;          // how many such changes there are
  bool is_cut_short = false;  // more plans would have been priced without the limit
  bool is_settled = false;    // a plan `within` perfect scaling ended the search
};

// Nothing can be priced (E-AUTO-001): the error of partitioning without annotations.
Expected<SearchResult> SearchPlans(PlanPricer& pricer, const SearchOptions& options);

// The best plan in which group `group` has its option `option`: from `from` on, every other group
// is changed for the better once, the heaviest first, with `evaluations` more plans priced at most.
// Nothing if no such plan can be partitioned.
std::optional<PricedPlan> BestWithOption(PlanPricer& pricer, const SearchOptions& options,
                                         const Plan& from, size_t group, int option,
                                         int64_t evaluations);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_SEARCH_H_
