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
#include "core/estimate/plan.h"
#include "core/partition/plan/known_reshard_plans.h"

namespace gshard::autoshard {

struct PricingOptions {
  Chip chip;
  DeviceProgramOptions program;
  CostOptions cost;
  int threads = 0;  // number of threads; 0: one per core
};

// Not thread-safe: Price starts the threads itself.
class PlanPricer {
 public:
  // `text`: the program that plans are put on, HLO that names a mesh, without calls. `written`: the
  // same with all annotations of the user; empty: there are no others. Errors: those of the parser.
  static Expected<std::unique_ptr<PlanPricer>> Make(const std::string& text,
                                                    const std::string& written,
                                                    PricingOptions options);
  ~PlanPricer();

  const Module& module() const;
  // Annotations of the user that `text` does not have, by instruction id of `module`; null: none.
  const std::vector<const Sharding*>& written() const;

  // Returns the figures in the order of the plans; nothing for one that cannot be partitioned.
  // Plans that have been priced before are not priced again.
  std::vector<std::optional<PlanFigures>> Price(const PlanSpace& space,
                                                std::span<const Plan> plans);
  // Number of different plans tried so far; number of those that cannot be partitioned.
  int64_t evaluations() const { return static_cast<int64_t>(known_.size()); }
  int64_t refused() const { return refused_; }
  // Number of different programs of one device that these plans were.
  int64_t programs() const { return by_shardings_.size(); }
  bool Knows(const Plan& plan) const { return known_.contains(KeyOf(plan)); }

  // The program that a plan makes of `module`, before propagation: annotated, updates cut.
  Expected<std::unique_ptr<Module>> Apply(const PlanSpace& space, const Plan& plan) const;

 private:
  struct Reading;  // of the text, by one thread

  explicit PlanPricer(PricingOptions options);
  static std::string KeyOf(const Plan& plan);
  std::optional<PlanFigures> PriceOne(const PlanSpace& space, const Plan& plan, Reading& reading);

  PricingOptions options_;
  FiguresByShardings by_shardings_;
  KnownReshardPlans reshard_plans_;
  KnownMaskedShares masked_shares_;
  std::vector<std::unique_ptr<Reading>> readings_;  // by thread
  std::unordered_map<std::string, std::optional<PlanFigures>> known_;
  int64_t refused_ = 0;
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_PRICER_H_
