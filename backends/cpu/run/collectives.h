// Collectives as plain functions over buffers: no rendezvous, so nothing can time out.
#ifndef GSHARD_BACKENDS_CPU_RUN_COLLECTIVES_H_
#define GSHARD_BACKENDS_CPU_RUN_COLLECTIVES_H_

#include <cstddef>

#include "backends/cpu/plan/plan.h"
#include "backends/cpu/run/active_set.h"
#include "backends/cpu/run/workers.h"

namespace gshard::cpu {

// Computes the results of all classes with an active device (`active` null: all). Members are
// combined in the order their group lists them, whatever the number of threads. Throws
// std::out_of_range if a ragged-all-to-all's offsets leave its buffers.
void RunCollective(const CollectiveStep& step, std::byte* arena, ActiveSet* active,
                   Workers& workers);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_COLLECTIVES_H_
