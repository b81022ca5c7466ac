// What is known of the memory of one computation of a module.
#ifndef GSHARD_CORE_COST_MEMORY_COMPUTATION_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_COMPUTATION_MEMORY_H_

#include <cstdint>
#include <unordered_map>

#include "core/cost/memory/live_ranges.h"

namespace gshard {

struct ComputationMemory {
  BufferGraph graph;
  CallContext context;
  Order order;
  Liveness liveness;
  int64_t parameter_bytes = 0;
  int64_t fast_bytes = 0;  // the most that it and what it calls have in the chip's fast memory
  bool is_idle = false;    // no device runs it
  // Its peak beyond its parameters.
  int64_t extra() const { return is_idle ? 0 : liveness.peak_bytes - parameter_bytes; }
};

using ComputationMemories = std::unordered_map<const Computation*, ComputationMemory>;

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_COMPUTATION_MEMORY_H_
