// Which values of a computation its chip keeps in fast memory (a TPU's VMEM, v4's CMEM), where they
// take nothing of the memory that a program has to fit.
//
// XLA's compiler for TPUs places values so after it has scheduled them: those first that kernels
// read and write most for their size, each for its whole life, as long as there is room. Arguments
// take part with the copies that it makes of them for kernels that read them again.
#ifndef GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/cost/memory/live_ranges.h"

namespace gshard {

struct FastMemoryPlan {
  std::vector<bool> holds;  // by buffer
  int64_t peak_bytes = 0;   // of its own and of what it calls
};

// `liveness`: of that order, collectives not in place, nothing in fast memory. `callees`: per node
// what the computations that it calls have in fast memory. O(n log n) in buffers and steps.
FastMemoryPlan PlanFastMemory(const BufferGraph& graph, std::span<const uint32_t> order,
                              const Liveness& liveness, const CallContext& context,
                              std::span<const int64_t> callees, int64_t capacity);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_
