// In which directions shardings pass through an opcode, as a word for tables.
#ifndef GSHARD_CORE_PROPAGATION_RULE_SUMMARY_H_
#define GSHARD_CORE_PROPAGATION_RULE_SUMMARY_H_

#include "ir/opcode.h"

namespace gshard {

// "both", "forward", "backward", "receives" (what its users ask only), or "-": just what the user
// wrote, and replication.
const char* PropagationSummary(Opcode opcode);

// False of an opcode whose results get no sharding from their operands or users, only replication
// and what the user wrote on them. True of a custom call, for which that depends on its target.
bool TakesShardings(Opcode opcode);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_RULE_SUMMARY_H_
