// Elementwise operations of a chain that follow one another become one: their temporaries live in
// registers and small tiles instead of memory.
#ifndef GSHARD_BACKENDS_CPU_PLAN_FUSION_H_
#define GSHARD_BACKENDS_CPU_PLAN_FUSION_H_

#include "backends/cpu/plan/schedule.h"

namespace gshard::cpu {

// Replaces groups of operations in the schedule's chains by fused ones (Program::fused_ops). Groups
// have one element count; a member's operands from the group must be elementwise. Errors: of
// building kernels.
Expected<void> FuseElementwise(Program& program, Schedule& schedule);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_FUSION_H_
