// See plan_moves.h.

#include "core/autoshard/plan_moves.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// Groups with up to so many options try all of them; others change one axis at a time.
constexpr size_t kMaxOptionsAtOnce = 10;

// Nothing where the other axis does not divide a dim.
std::optional<Plan> WithAxesSwapped(const PlanSpace& space, Plan plan, size_t a, size_t b) {
  for (size_t g = 0; g < space.groups().size(); ++g) {
    if (plan.choices[g] <= 0) continue;
    Cut cut = *space.groups()[g].options[At(plan.choices[g])];
    std::swap(cut[a], cut[b]);
    const std::optional<int> option = space.OptionOf(g, cut);
    if (!option) return std::nullopt;
    plan.choices[g] = *option;
  }
  return plan;
}

}  // namespace

std::vector<int> OptionsNear(const PlanSpace& space, const Plan& plan, size_t group) {
  const std::vector<std::optional<Cut>>& options = space.groups()[group].options;
  const int now = plan.choices[group];
  const Cut* cut = now > 0 ? &*options[At(now)] : nullptr;
  std::vector<int> near;
  for (int option = 0; option < static_cast<int>(options.size()); ++option) {
    if (option == now) continue;
    const std::optional<Cut>& other = options[At(option)];
    if (other && options.size() > kMaxOptionsAtOnce) {
      int changes = 0;
      for (size_t axis = 0; axis < other->size(); ++axis) {
        changes += (*other)[axis] != (cut != nullptr ? (*cut)[axis] : -1);
      }
      if (changes > 1) continue;
    }
    near.push_back(option);
  }
  return near;
}

std::vector<Plan> MovesOfGroup(const PlanSpace& space, const Plan& plan, size_t group) {
  return MovesOfSet(space, plan, {group});
}

std::vector<Plan> MovesOfSet(const PlanSpace& space, const Plan& plan,
                             const std::vector<size_t>& groups) {
  std::vector<Plan> moves = {plan};
  for (const size_t g : groups) {
    std::vector<Plan> longer;
    for (const Plan& move : moves) {
      for (const int option : OptionsNear(space, plan, g)) {
        longer.push_back(move);
        longer.back().choices[g] = option;
      }
    }
    moves = std::move(longer);
  }
  return moves;
}

int64_t CountMoves(const PlanSpace& space) {
  const Plan none = space.EmptyPlan();
  size_t count = 0;
  for (size_t g = 0; g < space.groups().size(); ++g) count += OptionsNear(space, none, g).size();
  return static_cast<int64_t>(count);
}

std::vector<Plan> AxisSwaps(const PlanSpace& space, const Plan& plan) {
  std::vector<Plan> swaps;
  for (size_t a = 0; a < space.mesh().size(); ++a) {
    for (size_t b = a + 1; b < space.mesh().size(); ++b) {
      if (auto swapped = WithAxesSwapped(space, plan, a, b)) swaps.push_back(std::move(*swapped));
    }
  }
  return swaps;
}

std::vector<Plan> SetsOfMoves(const Plan& plan, const std::vector<GroupMove>& moves) {
  std::vector<Plan> sets;
  Plan all = plan;
  std::set<size_t> changed;
  for (const auto& [group, move] : moves) {
    if (!changed.insert(group).second) continue;
    all.choices[group] = move.choices[group];
    if (changed.size() > 1 && std::has_single_bit(changed.size())) sets.push_back(all);
  }
  return sets;
}

std::vector<size_t> GroupsByWeight(const PlanSpace& space) {
  std::vector<size_t> order(space.groups().size());
  for (size_t g = 0; g < order.size(); ++g) order[g] = g;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return space.groups()[a].bytes > space.groups()[b].bytes;
  });
  return order;
}

std::vector<std::vector<std::vector<size_t>>> SetsOfGroups(const PlanSpace& space) {
  std::vector<std::vector<std::vector<size_t>>> lists(3);
  const std::set<std::pair<size_t, size_t>> touching(space.neighbours().begin(),
                                                     space.neighbours().end());
  const size_t groups = space.groups().size();
  for (size_t a = 0; a < groups; ++a) {
    for (size_t b = a + 1; b < groups; ++b) {
      lists[touching.contains({a, b}) ? 0 : 1].push_back({a, b});
      for (size_t c = b + 1; c < groups; ++c) {
        const int touches = static_cast<int>(touching.contains({a, b})) +
                            static_cast<int>(touching.contains({b, c})) +
                            static_cast<int>(touching.contains({a, c}));
        if (touches >= 2) lists[2].push_back({a, b, c});
      }
    }
  }
  return lists;
}

double CountPlans(const PlanSpace& space, bool zero) {
  double count = zero ? 2 : 1;
  for (const Group& group : space.groups()) count *= static_cast<double>(group.options.size());
  return count;
}

std::vector<Plan> AllPlans(const PlanSpace& space, bool zero) {
  std::vector<Plan> plans = {space.EmptyPlan()};
  if (zero) plans.push_back({plans[0].choices, true});
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const size_t before = plans.size();
    for (size_t option = 1; option < space.groups()[g].options.size(); ++option) {
      for (size_t i = 0; i < before; ++i) {
        plans.push_back(plans[i]);
        plans.back().choices[g] = static_cast<int>(option);
      }
    }
  }
  return plans;
}

}  // namespace gshard::autoshard
