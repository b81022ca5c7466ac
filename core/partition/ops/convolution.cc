#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Convolution(RuleContext& rule) { return rule.Default(); }

}  // namespace gshard::partition_rules
