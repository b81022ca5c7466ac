// A plan as rules for `gshard-opt annotate`: by op_name without the numbers of layers where such a
// pattern finds just the group, so that the rules fit the model's next version; else by names.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_

#include <string>
#include <vector>

#include "core/autoshard/auto_sharding.h"

namespace gshard::autoshard {

// One rule, or few, for each group that the plan annotates. Every pattern was tried on `module`: it
// finds members of its group and nothing else. Of groups left as written, one rule a sharding.
std::vector<PlannedRule> RulesOf(const Module& module, const std::vector<const Sharding*>& written,
                                 const PlanSpace& space, const Plan& plan);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_
