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

struct FastMemoryLimits {
  int64_t capacity = 0;
  std::vector<int64_t> callees;  // per node: what the computations that it calls have there
  std::vector<bool> carried;     // by buffer: a loop carries it and reads it as a whole
};

// `liveness`: of that order, collectives not in place, nothing in fast memory. O(n log n) in
// buffers and steps.
FastMemoryPlan PlanFastMemory(const BufferGraph& graph, std::span<const uint32_t> order,
                              const Liveness& liveness, const CallContext& context,
                              const FastMemoryLimits& limits);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_
