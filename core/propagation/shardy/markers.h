// Markers of shardings in a module: what they say of other values, and how they go.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_MARKERS_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_MARKERS_H_

#include "core/explain/propagation_findings.h"
#include "ir/module.h"

namespace gshard::shardy {

// Where a value is constrained by a chain of two or more constraints, each of which but the last
// has the next one as its only use, and by no other constraint, later uses of the value in its
// computation use the end of the chain. True if any did not.
bool FollowConstraintChains(Module& module);

// `Sharding` calls become copies of the same name with their shardings; what `findings` (may be
// null) say of them is said of the copies. Barriers stay for the partitioner, so that propagating
// again does not see through them. True if there were any.
bool ReplaceMarkers(Module& module, PropagationFindings* findings);

// Attributes `xla.sdy.sharding` go: their open dims and priorities were for propagation, after which
// all dims are closed. True if there were any.
bool DropShardingAttributes(Module& module);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_MARKERS_H_
