// Plans near another one: with other cuts of one group or of several, with axes in each other's
// place; and all plans of a space.
//
// docs/auto.md, "Moves". These functions keep nothing and may be called from any thread.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_MOVES_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_MOVES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/autoshard/plan_space.h"

namespace gshard::autoshard {

// A plan, and the group in which it differs from the one it was made of.
using GroupMove = std::pair<size_t, Plan>;

// Returns the other options that `plan` may take for a group. Of a group of many options they are
// those that change one axis.
std::vector<int> OptionsNear(const PlanSpace& space, const Plan& plan, size_t group);
// Returns `plan` with each of these.
std::vector<Plan> MovesOfGroup(const PlanSpace& space, const Plan& plan, size_t group);
// Returns `plan` with each of these for every group of `groups` at once.
std::vector<Plan> MovesOfSet(const PlanSpace& space, const Plan& plan,
                             const std::vector<size_t>& groups);
// Returns the number of moves of one group.
int64_t CountMoves(const PlanSpace& space);
// Returns `plan` with two axes in each other's place in all cuts, for any two where that divides.
std::vector<Plan> AxisSwaps(const PlanSpace& space, const Plan& plan);
// Returns `plan` with the first of `moves` of each of the first two, four, eight .. groups at once.
std::vector<Plan> SetsOfMoves(const Plan& plan, const std::vector<GroupMove>& moves);

// Returns the groups, the heaviest first.
std::vector<size_t> GroupsByWeight(const PlanSpace& space);
// Returns sets of groups in three lists: pairs that touch, other pairs, three that touch.
std::vector<std::vector<std::vector<size_t>>> SetsOfGroups(const PlanSpace& space);

// Returns every plan; `zero`: with updates of weights cut as well. CountPlans says how many.
std::vector<Plan> AllPlans(const PlanSpace& space, bool zero);
double CountPlans(const PlanSpace& space, bool zero);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_MOVES_H_
