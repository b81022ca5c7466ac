// A plan as rules for `gshard-opt annotate`: by op_name without the numbers of layers where such a
// pattern finds just the group, so that the rules fit the model's next version; else by names.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_

#include <map>
#include <string>
#include <vector>

#include "core/autoshard/auto_sharding.h"
#include "core/autoshard/plan_space.h"
#include "core/transforms/annotations/instruction_names.h"

namespace gshard::autoshard {

// Makes the rules of plans of one program: each pattern is matched against it once, however many
// plans have it. Not thread-safe.
class PlanRules {
 public:
  // Both must outlive this.
  PlanRules(const Module& module, const PlanSpace& space);

  // One rule, or few, for each group that the plan annotates. Every pattern was tried on the
  // module: it finds members of its group and nothing else. Of groups left as written, one rule a
  // sharding. `written`: by instruction id.
  std::vector<PlannedRule> Of(const std::vector<const Sharding*>& written, const Plan& plan);

 private:
  PlannedRule RuleFor(const Group& group, const std::vector<uint32_t>& members,
                      const std::string& spec);
  // Of some members of a group: alternatives by op_name with any numbers, with any where members
  // differ, the same by name, then names.
  const std::string& PatternFor(const std::vector<uint32_t>& members);

  const Module& module_;
  const PlanSpace& space_;
  const InstructionNames names_;
  std::vector<const Instruction*> by_id_;
  std::map<std::vector<uint32_t>, std::string> pattern_of_;  // by members
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_RULES_H_
