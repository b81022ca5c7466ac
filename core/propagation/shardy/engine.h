// Shardy's propagation over a graph: axes move along factors until nothing changes
// (docs/propagation.md, "Shardy").
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_ENGINE_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_ENGINE_H_

#include "core/propagation/shardy/graph.h"

namespace gshard::shardy {

// One dim of a tensor that has got more axes.
struct Growth {
  const Operation* operation = nullptr;
  int tensor = -1;
  int64_t dim = 0;
  int factor = 0;  // of the operation's relation
  int from = -1;   // tensor that gave the axes
  int tier = 0;    // 0..4, see Propagate
  int64_t priority = 0;
};

// Propagates shardings over `graph`, in place. First closed constraints give their sharding to what
// they constrain. Then, for each priority from the smallest on and within it for each tier, all
// operations are visited until nothing changes. Each tier permits what those before it do, and by
// OpClass:
//
//   0  kPassThrough: edges in both directions; others in both if nobody else uses an operand, else
//      backward if the operands with other users are closed. kDynamicSlice forward.
//   1  kPassThrough in both directions
//   2  kDynamicSlice and kOther in both directions, kBroadcast backward
//   3  also factors that need communication; up to here only those of kind kPassThrough
//   4  kBroadcast in both directions
//
// `growths` (may be null) receives every change in order. Deterministic; the time is proportional
// to what changes and to the number of operations. Not thread-safe: it changes `graph`.
void Propagate(Graph& graph, std::vector<Growth>* growths);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_ENGINE_H_
