// An order of a computation's nodes that keeps its peak memory low.
//
// Finding the best is NP-hard (Sethi, "Complete register allocation problems", 1975), so several
// cheap orders are tried and the best is taken: the text's, a depth-first one that evaluates the
// operand that needs most first (Sethi and Ullman, "The generation of optimal code for arithmetic
// expressions", 1970), and a list schedule that always runs the ready node which frees most. In
// each, nodes that free nothing are moved down to their first user.
#ifndef GSHARD_CORE_COST_MEMORY_MEMORY_SCHEDULE_H_
#define GSHARD_CORE_COST_MEMORY_MEMORY_SCHEDULE_H_

#include "core/cost/memory/live_ranges.h"

namespace gshard {

struct MemorySchedule {
  Order order;
  Liveness liveness;  // in that order
};

// O(n log n) in nodes, reads and edges. Never worse than the text's order.
MemorySchedule MinimizeMemory(const BufferGraph& graph, const CallContext& context);

// As XLA's compiler for TPUs has it (docs/against_tpu.md): the best of the list schedule, depth
// first and post-order, nothing moved.
MemorySchedule ScheduleForTpu(const BufferGraph& graph, const CallContext& context);

// As XLA's compiler for GPUs has it (docs/against_gpu.md): bottom-up, so that no kernel waits for
// the one right before it, the longest path last; not for the memory. O(n log n).
MemorySchedule ScheduleForGpu(const BufferGraph& graph, const CallContext& context);

// The order of the text.
Order TextOrder(const BufferGraph& graph);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_MEMORY_SCHEDULE_H_
