// Which values of a program its chip keeps in fast memory, where they take nothing of the memory
// that a program has to fit.
//
// All computations are one sequence of steps here, the body of a loop once where the loop runs: a
// value that a loop carries, or only reads, is at one place before the loop, in its body and after
// it. Between the last use of the old value and the first of the new one others may lie there.
// Arguments take part with the copies that the compiler makes of them for kernels that read them
// again.
#ifndef GSHARD_CORE_COST_MEMORY_FAST_VALUES_H_
#define GSHARD_CORE_COST_MEMORY_FAST_VALUES_H_

#include <unordered_map>
#include <vector>

#include "core/cost/memory/computation_memory.h"

namespace gshard {

struct FastMemoryPlan {
  // By buffer: the step of its computation until which it is there (CallContext::in_fast_memory).
  std::unordered_map<const Computation*, std::vector<uint32_t>> until;
  int64_t peak_bytes = 0;   // in a step, of all of them
  int64_t end_address = 0;  // above all that lies there
};

struct FastMemoryInput {
  const ComputationMemories& memories;
  // From how many places a computation is called. Those of one place are planned with their caller.
  const std::unordered_map<const Computation*, int64_t>& calls;
  // Of those that several places call, which are planned before: what they have there.
  const std::unordered_map<const Computation*, int64_t>& end_addresses;
  int64_t capacity = 0;
};

// Of a computation and what it alone calls. The liveness of `memories` is that without any fast
// memory. O(n log n) in buffers and steps but for values that lie beside many others.
FastMemoryPlan PlanFastMemory(const Computation& root, const FastMemoryInput& input);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_FAST_VALUES_H_
