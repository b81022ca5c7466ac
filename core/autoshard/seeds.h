// Plans that a search starts from: what experts write, and every way to cut the program by names.
#ifndef GSHARD_CORE_AUTOSHARD_SEEDS_H_
#define GSHARD_CORE_AUTOSHARD_SEEDS_H_

#include <string>
#include <vector>

#include "core/autoshard/plan_space.h"

namespace gshard::autoshard {

// By mesh axis: up to two names. A tensor that has both is cut in the earlier dim.
using NameChoice = std::vector<std::vector<int>>;

// The plan that cuts each tensor along each axis in the first dim that has a name of that axis and
// that the axis divides. Tensors that nothing cuts are left to propagation. Without `products`,
// parameters and inputs alone are annotated.
Plan PlanByNames(const PlanSpace& space, const NameChoice& names, bool products);

// Every choice of at most `most` (1 or 2) names an axis out of the `heaviest` first cuttable ones.
std::vector<NameChoice> NameChoices(const PlanSpace& space, int most, size_t heaviest);
// How many those are.
double CountNameChoices(const PlanSpace& space, int most, size_t heaviest);

struct NamedPlan {
  std::string name;
  Plan plan;
};

// No annotation at all; the user's own; data parallelism, FSDP, ZeRO and the largest dim of every
// tensor, along each axis and along all. `zero`: weight updates may be cut.
std::vector<NamedPlan> StylePlans(const PlanSpace& space, bool has_written, bool zero);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_SEEDS_H_
