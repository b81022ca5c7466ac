// When each buffer of a computation is alive, for one order of its nodes.
//
// A node's results are allocated before it runs and what it reads last is freed after it; a result
// takes over the memory of an operand that dies there where it can be computed in place. Copies
// that correctness needs are added where the text is no compiled one: for a value that two outputs
// or carries want to hold, for an update of something that is read later, for arguments that come
// back as results.
#ifndef GSHARD_CORE_COST_MEMORY_LIVE_RANGES_H_
#define GSHARD_CORE_COST_MEMORY_LIVE_RANGES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/cost/memory/buffer_graph.h"
#include "ir/op_traits.h"

namespace gshard {

// Do the computations that such an operation calls have buffers of their own? A fusion is one
// kernel.
inline bool CallsWithOwnMemory(Opcode opcode) {
  return IsControlFlow(opcode) && opcode != Opcode::kFusion;
}

// Who owns the memory of a parameter's leaf.
enum class Ownership : uint8_t {
  kPinned,    // the caller, for good: an argument that was not donated, a loop's invariant
  kBorrowed,  // the caller, who lets it be overwritten: an operand of a call
  kOwned,     // this computation: what a loop carries, a donated argument
};

// What surrounds a computation.
struct CallContext {
  std::vector<Ownership> parameters;  // per parameter leaf
  // Per root leaf: the parameter leaf in whose memory it must end, or -1.
  std::vector<int32_t> root_place;
  // Per root leaf of a branch: the caller's memory that it may be computed in (BranchHome), as the
  // parameter leaf whose memory that is. Empty: of none.
  std::vector<int32_t> home;
  bool returns_to_runtime = false;  // the entry: each result needs memory of its own
  // Results have their memory from the start on, donated or not, and nothing else is in it.
  bool donations_wait = false;
  bool copies_are_explicit = false;  // compiled text: adds no copies
  // By buffer: the step until which it is in fast memory and takes nothing; then it is copied here.
  // Empty: 0 for all, which is never.
  std::vector<uint32_t> in_fast_memory;
  // What a collective makes, and results, may be elsewhere than operands (fast_memory.h).
  bool collectives_apart = false;
  // Per node: the peak of the computations it calls beyond what it gives them.
  std::vector<int64_t> callees_extra;
};

inline constexpr uint32_t kAlwaysFast = UINT32_MAX;  // CallContext::in_fast_memory: to its end
inline constexpr int32_t kNoHome = -2;         // CallContext::home: it needs memory of its own
inline constexpr int32_t kHomeElsewhere = -1;  // in no parameter's: free from the start

using Order = std::vector<uint32_t>;  // of nodes

// Memory from one step to another, both included. Steps count the order; its size is the end.
struct LiveRange {
  uint32_t buffer = 0;  // the first that had this memory
  int64_t bytes = 0;
  uint32_t first = 0, last = 0;
  bool is_copy = false;  // made at the end
};

struct Liveness {
  std::vector<LiveRange> ranges;
  std::vector<uint32_t> range_of;  // buffer -> range
  std::vector<int64_t> inner;      // per step, and the end: bytes of callees beyond the ranges
  int64_t peak_bytes = 0;          // parameters included
  uint32_t peak_step = 0;
};

// Linear in the graph.
Liveness ComputeLiveness(const BufferGraph& graph, std::span<const uint32_t> order,
                         const CallContext& context);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_LIVE_RANGES_H_
