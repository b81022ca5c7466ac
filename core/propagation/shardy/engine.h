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
  int tier = 0;    // 0..4
  int64_t priority = 0;
};

// Closed constraints give their sharding to what they constrain; then, priority by priority and
// tier by tier, all operations until nothing changes. `growths` (may be null) receives every step
// in order. Deterministic; the time is proportional to what changes and to the number of
// operations.
void Propagate(Graph& graph, std::vector<Growth>* growths);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_ENGINE_H_
