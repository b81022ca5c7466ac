// What a custom call asks of its operand: what it has itself, dim by dim where it follows the
// operand's dims (ir/dimwise_call.h).
#ifndef GSHARD_CORE_PROPAGATION_CUSTOM_CALL_RULE_H_
#define GSHARD_CORE_PROPAGATION_CUSTOM_CALL_RULE_H_

#include "core/propagation/rules.h"

namespace gshard {

const Sharding* CustomCallBackward(const PropagationContext& c, const Instruction& user,
                                   const Sharding* s, const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_CUSTOM_CALL_RULE_H_
