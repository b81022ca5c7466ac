// See search.h.

#include "core/autoshard/search.h"

#include <algorithm>
#include <set>

#include "core/autoshard/seeds.h"
#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// Times so near are one: what is left to differ is rounding and order.
constexpr double kSameTime = 1e-3;
// All plans are priced up to so many. Plans by two names an axis are all tried up to as many; else
// one name an axis first, and second names on the best of those.
constexpr double kMaxExhaustive = 2000;
// Names with one an axis: more are left out by weight.
constexpr size_t kMaxNames = 16;
// Groups with up to so many options try all of them; others change one axis at a time.
constexpr size_t kMaxOptionsAtOnce = 10;

class Search {
 public:
  Search(PlanPricer& pricer, const PlanSpace& space, const SearchOptions& options)
      : pricer_(pricer), space_(space), options_(options) {}

  Expected<SearchResult> Run(bool has_written) {
    std::vector<Plan> styles;
    for (const NamedPlan& style : StylePlans(space_, has_written, options_.zero)) {
      styles.push_back(style.plan);
    }
    std::optional<PricedPlan> best_style = BestOf(styles, INT64_MAX);
    if (!best_style) {
      return Fail(MakeError("E-AUTO-001", "no plan for this program can be partitioned",
                            "`gshard-opt partition` says why"));
    }
    if (CountPlans() <= std::min(kMaxExhaustive, static_cast<double>(Left()))) {
      result_.is_exhaustive = result_.is_local_optimum = true;
      result_.plans = Ranked(*BestOf(AllPlans(), INT64_MAX));
      return std::move(result_);
    }
    // Seeds take half of the evaluations at most, so that the best of them can be improved.
    const std::optional<PricedPlan> by_parameters = BestByNames(false);
    const std::optional<PricedPlan> by_products = BestByNames(true);
    std::vector<PricedPlan> seeds;
    for (const std::optional<PricedPlan>& seed : {by_products, by_parameters, best_style}) {
      if (seed) seeds.push_back(*seed);
    }
    std::stable_sort(seeds.begin(), seeds.end(), [&](const PricedPlan& a, const PricedPlan& b) {
      return IsBetter(a, b, options_.limit_bytes);
    });
    PricedPlan best = seeds[0];
    for (const PricedPlan& seed : seeds) {
      const PricedPlan reached = Descend(seed);
      if (IsBetter(reached, best, options_.limit_bytes)) best = reached;
    }
    best = ImprovePairs(best);
    best = DropAnnotations(best);
    result_.is_local_optimum = CheckLocalOptimum(best);
    result_.plans = Ranked(best);
    return std::move(result_);
  }

  // One round around a group that keeps its choice in `plan`.
  std::optional<PricedPlan> RoundAround(const Plan& plan, size_t group) {
    std::optional<PricedPlan> current = BestOf({plan}, 1);
    if (!current) return current;
    Take(ZeroMove(current->plan), *current);
    for (const size_t g : ByWeight()) {
      if (g != group) Take(MovesOfGroup(current->plan, g), *current);
    }
    return current;
  }

 private:
  // Evaluations that are left, without those that dropping annotations takes at the end.
  int64_t Left() const {
    const auto groups = static_cast<int64_t>(space_.groups().size());
    return std::max<int64_t>(0, options_.evaluations - groups - pricer_.evaluations());
  }

  double CountPlans() const {
    double count = options_.zero ? 2 : 1;
    for (const Group& group : space_.groups()) count *= static_cast<double>(group.options.size());
    return count;
  }

  std::vector<Plan> AllPlans() const {
    std::vector<Plan> plans = {{std::vector<int>(space_.groups().size(), 0), false}};
    if (options_.zero) plans.push_back({plans[0].choices, true});
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const size_t before = plans.size();
      for (size_t option = 1; option < space_.groups()[g].options.size(); ++option) {
        for (size_t i = 0; i < before; ++i) {
          plans.push_back(plans[i]);
          plans.back().choices[g] = static_cast<int>(option);
        }
      }
    }
    return plans;
  }

  // Prices plans, `left` new ones at most; the best, if any could be priced.
  std::optional<PricedPlan> BestOf(std::vector<Plan> plans, int64_t left) {
    std::vector<Plan> taken;
    for (Plan& plan : plans) {
      const bool is_known = pricer_.Knows(plan);
      if (!is_known && left <= 0) {
        result_.is_cut_short = true;
        continue;
      }
      left -= is_known ? 0 : 1;
      taken.push_back(std::move(plan));
    }
    const auto figures = pricer_.Price(space_, taken);
    std::optional<PricedPlan> best;
    for (size_t i = 0; i < taken.size(); ++i) {
      if (!figures[i]) continue;
      PricedPlan priced{taken[i], *figures[i], space_.AnnotationsOf(taken[i])};
      if (!best || IsBetter(priced, *best, options_.limit_bytes)) best = priced;
      Remember(std::move(priced));
    }
    return best;
  }

  void Remember(PricedPlan priced) {
    const auto known = std::ranges::find_if(
        seen_, [&](const PricedPlan& other) { return other.plan == priced.plan; });
    if (known == seen_.end()) seen_.push_back(std::move(priced));
  }

  // The best plan by names, if any could be priced; with or without annotations on products.
  std::optional<PricedPlan> BestByNames(bool products) {
    const size_t names = space_.cuttable_names().size();
    const auto plans_of = [&](const std::vector<NameChoice>& choices) {
      std::vector<Plan> plans;
      for (const NameChoice& choice : choices) {
        plans.push_back(PlanByNames(space_, choice, products));
      }
      result_.name_plans += static_cast<int64_t>(plans.size());
      return plans;
    };
    const int64_t most = std::min(Left(), options_.evaluations / 4);
    const auto budget = static_cast<double>(most);
    if (CountNameChoices(space_, 2, names) <= std::min(kMaxExhaustive, budget)) {
      result_.names_exhausted = true;  // of parameters, or with products: both come here
      return BestOf(plans_of(NameChoices(space_, 2, names)), most);
    }
    size_t heaviest = std::min(names, kMaxNames);
    while (heaviest > 1 && CountNameChoices(space_, 1, heaviest) > budget) --heaviest;
    const std::vector<NameChoice> single = NameChoices(space_, 1, heaviest);
    const std::vector<Plan> plans = plans_of(single);
    std::optional<PricedPlan> best = BestOf(plans, most);
    if (!best) return best;
    // Second names, one at a time, on the best few and on what that makes of them.
    NameChoice current = single[At(std::ranges::find(plans, best->plan) - plans.begin())];
    for (int round = 0; round < 4; ++round) {
      std::vector<NameChoice> longer;
      for (size_t axis = 0; axis < current.size(); ++axis) {
        if (space_.mesh()[axis].size == 1 || current[axis].size() > 1) continue;
        for (size_t i = 0; i < std::min(names, kMaxNames); ++i) {
          longer.push_back(current);
          longer.back()[axis].push_back(space_.cuttable_names()[i]);
        }
      }
      if (longer.empty()) break;
      const std::vector<Plan> more = plans_of(longer);
      const std::optional<PricedPlan> reached = BestOf(more, Left() / 4);
      if (!reached || !IsBetter(*reached, *best, options_.limit_bytes)) break;
      best = reached;
      current = longer[At(std::ranges::find(more, best->plan) - more.begin())];
    }
    return best;
  }

  // Other choices for a group. Groups of many options change one axis at a time.
  std::vector<int> MovesOf(const Plan& plan, size_t g) const {
    const Group& group = space_.groups()[g];
    const int now = plan.choices[g];
    std::vector<int> moves;
    const Cut* cut = now > 0 ? &*group.options[At(now)] : nullptr;
    for (int option = 0; option < static_cast<int>(group.options.size()); ++option) {
      if (option == now) continue;
      const std::optional<Cut>& other = group.options[At(option)];
      if (other && group.options.size() > kMaxOptionsAtOnce) {
        int changes = 0;
        for (size_t axis = 0; axis < other->size(); ++axis) {
          changes += (*other)[axis] != (cut != nullptr ? (*cut)[axis] : -1);
        }
        if (changes > 1) continue;
      }
      moves.push_back(option);
    }
    return moves;
  }

  std::vector<Plan> MovesOfGroup(const Plan& plan, size_t g) const {
    std::vector<Plan> moves;
    for (const int option : MovesOf(plan, g)) {
      moves.push_back(plan);
      moves.back().choices[g] = option;
    }
    return moves;
  }

  std::vector<Plan> ZeroMove(const Plan& plan) const {
    if (!options_.zero) return {};
    Plan other = plan;
    other.cuts_weight_updates = !other.cuts_weight_updates;
    return {other};
  }

  bool Take(std::vector<Plan> moves, PricedPlan& current) {
    const std::optional<PricedPlan> best = BestOf(std::move(moves), Left());
    if (!best || !IsBetter(*best, current, options_.limit_bytes)) return false;
    current = *best;
    return true;
  }

  // Groups, the heaviest first.
  std::vector<size_t> ByWeight() const {
    std::vector<size_t> order(space_.groups().size());
    for (size_t g = 0; g < order.size(); ++g) order[g] = g;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return space_.groups()[a].bytes > space_.groups()[b].bytes;
    });
    return order;
  }

  // Group after group, until no change of one is better.
  PricedPlan Descend(PricedPlan current) {
    const std::vector<size_t> order = ByWeight();
    for (bool changed = true; changed && Left() > 0;) {
      changed = Take(ZeroMove(current.plan), current);
      for (const size_t g : order) changed |= Take(MovesOfGroup(current.plan, g), current);
    }
    return current;
  }

  PricedPlan ImprovePairs(PricedPlan current) {
    for (bool changed = true; changed && Left() > 0;) {
      changed = false;
      for (const auto& [a, b] : space_.neighbours()) {
        std::vector<Plan> moves;
        for (const Plan& first : MovesOfGroup(current.plan, a)) {
          for (const int option : MovesOf(current.plan, b)) {
            moves.push_back(first);
            moves.back().choices[b] = option;
          }
        }
        if (static_cast<int64_t>(moves.size()) > Left()) continue;
        changed |= Take(std::move(moves), current);
      }
      if (changed) current = Descend(current);
    }
    return current;
  }

  // Groups whose annotation changes nothing lose it, the lightest first.
  PricedPlan DropAnnotations(PricedPlan current) {
    std::vector<size_t> order;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      if (current.plan.choices[g] != 0) order.push_back(g);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return space_.groups()[a].bytes < space_.groups()[b].bytes;
    });
    for (const size_t g : order) {
      Plan fewer = current.plan;
      fewer.choices[g] = 0;
      const auto figures = pricer_.Price(space_, {&fewer, 1})[0];
      if (!figures) continue;
      PricedPlan priced{fewer, *figures, space_.AnnotationsOf(fewer)};
      Remember(priced);
      const bool is_worse =
          priced.figures.step.step_time_s > current.figures.step.step_time_s ||
          priced.figures.step.peak_bytes > current.figures.step.peak_bytes ||
          priced.figures.returns_state_alike < current.figures.returns_state_alike;
      if (!is_worse) current = std::move(priced);
    }
    return current;
  }

  bool CheckLocalOptimum(const PricedPlan& best) {
    std::vector<Plan> moves = ZeroMove(best.plan);
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const std::vector<Plan> more = MovesOfGroup(best.plan, g);
      moves.insert(moves.end(), more.begin(), more.end());
    }
    result_.moves = static_cast<int64_t>(moves.size());
    const bool all_known =
        std::ranges::all_of(moves, [&](const Plan& move) { return pricer_.Knows(move); });
    if (!all_known && result_.moves > Left()) return false;
    const std::optional<PricedPlan> reached = BestOf(std::move(moves), Left());
    return !reached || !IsBetter(*reached, best, options_.limit_bytes);
  }

  // All that was priced, `best` first.
  std::vector<PricedPlan> Ranked(const PricedPlan& best) const {
    std::vector<PricedPlan> plans = seen_;
    std::erase_if(plans, [&](const PricedPlan& plan) { return plan.plan == best.plan; });
    const auto fits = [&](const PricedPlan& plan) {
      return options_.limit_bytes == 0 || plan.figures.step.peak_bytes <= options_.limit_bytes;
    };
    std::stable_sort(plans.begin(), plans.end(), [&](const PricedPlan& a, const PricedPlan& b) {
      if (fits(a) != fits(b)) return fits(a);
      return fits(a) ? a.figures.step.step_time_s < b.figures.step.step_time_s
                     : a.figures.step.peak_bytes < b.figures.step.peak_bytes;
    });
    plans.insert(plans.begin(), best);
    return plans;
  }

  PlanPricer& pricer_;
  const PlanSpace& space_;
  const SearchOptions& options_;
  std::vector<PricedPlan> seen_;
  SearchResult result_;
};

}  // namespace

bool IsBetter(const PricedPlan& a, const PricedPlan& b, int64_t limit_bytes) {
  if (a.figures.returns_state_alike != b.figures.returns_state_alike) {
    return a.figures.returns_state_alike;
  }
  const StepFigures& x = a.figures.step;
  const StepFigures& y = b.figures.step;
  const bool a_fits = limit_bytes == 0 || x.peak_bytes <= limit_bytes;
  const bool b_fits = limit_bytes == 0 || y.peak_bytes <= limit_bytes;
  if (a_fits != b_fits) return a_fits;
  if (!a_fits && x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  if (x.step_time_s < y.step_time_s * (1 - kSameTime)) return true;
  // A chain of such steps must not make the time longer.
  if (x.step_time_s > y.step_time_s) return false;
  if (x.peak_bytes != y.peak_bytes) return x.peak_bytes < y.peak_bytes;
  return a.annotations < b.annotations;
}

Expected<SearchResult> SearchPlans(PlanPricer& pricer, const PlanSpace& space, bool has_written,
                                   const SearchOptions& options) {
  return Search(pricer, space, options).Run(has_written);
}

std::optional<PricedPlan> BestWithOption(PlanPricer& pricer, const PlanSpace& space,
                                         const SearchOptions& options, const Plan& from,
                                         size_t group, int option, int64_t evaluations) {
  SearchOptions budget = options;
  budget.evaluations =
      pricer.evaluations() + evaluations + static_cast<int64_t>(space.groups().size());
  Plan plan = from;
  plan.choices[group] = option;
  return Search(pricer, space, budget).RoundAround(plan, group);
}

}  // namespace gshard::autoshard
