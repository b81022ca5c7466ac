// How much memory a program's temporaries need where each is one piece at a fixed address.
//
// XLA's compiler for TPUs places values in the order of execution: each, when it is made, in the
// smallest piece of free memory that it fits in, the lowest of equal ones, or else above all
// others. What is free in total may be in pieces too small for the next value (fragmentation).
// Found from the addresses in its buffer assignments (docs/against_tpu.md).
#ifndef GSHARD_CORE_COST_MEMORY_HEAP_PLACEMENT_H_
#define GSHARD_CORE_COST_MEMORY_HEAP_PLACEMENT_H_

#include <cstdint>
#include <unordered_map>

#include "core/cost/memory/computation_memory.h"

namespace gshard {

struct HeapPlacement {
  int64_t bytes = 0;                     // the end of the highest
  const Instruction* highest = nullptr;  // whose result that is; null: nothing is placed
  uint32_t leaf = 0;                     // of its shape
  // Of the program's arguments and results, which have memory of their own.
  int64_t apart_bytes = 0;
};

struct HeapPlacementInput {
  const ComputationMemories& memories;
  // From how many places a computation is called. Those of one place are placed with their caller.
  const std::unordered_map<const Computation*, int64_t>& calls;
  // Of those that several places call, which are placed before: what they need.
  const std::unordered_map<const Computation*, HeapPlacement>& shared;
};

// Of what a computation and those that it alone calls make, but for the results of the program that
// have memory of their own. O(n m) where m values are alive together.
HeapPlacement PlaceInOrder(const Computation& root, const HeapPlacementInput& input);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_HEAP_PLACEMENT_H_
