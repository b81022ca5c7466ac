#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Gather(RuleContext& rule) { return rule.Default(); }
RuleResult Scatter(RuleContext& rule) { return rule.Default(); }

}  // namespace gshard::partition_rules
