// What to say of a plan that needs more memory than a run may take.
#ifndef GSHARD_BACKENDS_CPU_PLAN_MEMORY_ERROR_H_
#define GSHARD_BACKENDS_CPU_PLAN_MEMORY_ERROR_H_

#include <cstdint>
#include <string_view>

#include "backends/cpu/plan/plan.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

// E-RUN-MEMORY: the plan's peak, the limit with its name in front, what one device of the real mesh
// would hold, the largest arrays (plan.memory.largest), and what to do, `first` of all.
Diagnostic MemoryError(const Plan& plan, std::string_view name, int64_t limit,
                       std::string_view first = {});

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_MEMORY_ERROR_H_
