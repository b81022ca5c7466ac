// The table opcode -> partition rule; complete, or it does not compile.
#ifndef GSHARD_CORE_PARTITION_RULE_TABLE_H_
#define GSHARD_CORE_PARTITION_RULE_TABLE_H_

#include "core/partition/scope/op_rule.h"

namespace gshard {

struct OpRuleEntry {
  OpRule rule = nullptr;
  bool is_default = false;  // nothing better than whole operands is known
};
const OpRuleEntry& RuleFor(Opcode opcode);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_RULE_TABLE_H_
