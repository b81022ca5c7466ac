// Prices plans on several threads. Every plan is propagated, and each program that comes of that
// is partitioned and priced in full (core/estimate/plan.h). Every thread has parsed the text for
// itself, so the figures do not depend on how many there are.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_PRICER_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_PRICER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/analysis/attention/known_masked_shares.h"
#include "core/autoshard/plan_space.h"
#include "core/autoshard/pricing_threads.h"
#include "core/estimate/plan.h"
#include "core/partition/plan/known_reshard_plans.h"

namespace gshard::autoshard {

struct PricingOptions {
  Chip chip;
  DeviceProgramOptions program;
  CostOptions cost;
  int threads = 0;  // number of threads; 0: one per core
};

// Not thread-safe: it has threads of its own.
class PlanPricer {
 public:
  // `text`: the program that plans are put on, HLO that names `mesh`, without calls. `written`: the
  // same with all annotations of the user; empty: there are no others. Errors: those of the parser.
  static Expected<std::unique_ptr<PlanPricer>> Make(const std::string& text,
                                                    const std::string& written,
                                                    const std::vector<MeshAxis>& mesh,
                                                    PricingOptions options);
  ~PlanPricer();

  const Module& module() const;
  const PricingOptions& options() const { return options_; }
  // The plans that there are for it.
  const PlanSpace& space() const { return *space_; }
  // Annotations of the user that `text` does not have, by instruction id of `module`; null: none.
  const std::vector<const Sharding*>& written() const;

  // Returns the figures in the order of the plans; nothing for one that cannot be partitioned.
  // Plans that have been priced before are not priced again. Threads that have nothing else to do
  // go on with `next`, plans that are likely to be asked for: these count when they are.
  std::vector<std::optional<PlanFigures>> Price(std::span<const Plan> plans,
                                                std::span<const Plan> next = {});
  // How many plans are worth naming as `next`.
  size_t MostAhead() const;
  // Number of different plans tried so far; number of those that cannot be partitioned.
  int64_t evaluations() const { return static_cast<int64_t>(known_.size()); }
  int64_t refused() const { return refused_; }
  // Number of different programs of one device priced so far, for plans that were asked for or
  // priced ahead.
  int64_t programs() const { return by_shardings_.size(); }
  // Forgets which plans were tried, but not what their programs cost: a search that follows is the
  // same as if it were the first.
  void StartOver();
  bool Knows(const Plan& plan) const { return known_.contains(KeyOf(plan)); }

  // The program that a plan makes of `module`, before propagation: annotated, updates cut.
  Expected<std::unique_ptr<Module>> Apply(const Plan& plan) const;

 private:
  struct Reading;  // of the text, by one thread

  explicit PlanPricer(PricingOptions options);
  static std::string KeyOf(const Plan& plan);
  std::optional<PlanFigures> PriceOne(const Plan& plan, Reading& reading);

  PricingOptions options_;
  FiguresByShardings by_shardings_;
  KnownReshardPlans reshard_plans_;
  KnownMaskedShares masked_shares_;                 // where the options have none
  std::vector<std::unique_ptr<Reading>> readings_;  // by thread
  std::unordered_map<std::string, std::optional<PlanFigures>> known_;
  int64_t refused_ = 0;
  std::optional<PlanSpace> space_;
  std::optional<PricingThreads> threads_;  // last: it ends before what it works with
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_PRICER_H_
