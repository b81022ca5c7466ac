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

// `Sharding` calls and propagation barriers become copies of the same name with their shardings;
// what `findings` (may be null) say of them is said of the copies. True if there were any.
bool ReplaceMarkers(Module& module, PropagationFindings* findings);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_MARKERS_H_
