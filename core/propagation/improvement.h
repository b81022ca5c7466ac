// When a sharding offered to an instruction replaces the one it has (docs/propagation.md, "The
// improvement rule"). Pure functions over canonical shardings; the engine applies them.
#ifndef GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_
#define GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_

#include "core/propagation/derived_shardings.h"
#include "ir/sharding.h"

namespace gshard {

// Returns, leaf by leaf, the combination of `current` and `offered` if it has more tiles than
// either (only with `combine`, and if both are partially replicated), otherwise `offered`. Returns
// null if no leaf is such a combination and no offered leaf is more specific (IsMoreSpecific) than
// the current one. Neither argument is null; tuples have equally many leaves.
const Sharding* MergeIntoOffer(DerivedShardings& derive, const Sharding* current,
                               const Sharding* offered, bool combine);

// Returns the sharding that replaces `current` (null: none) of an instruction of `shape` when
// `offered` is offered to it, or null if it keeps `current`. With `aggressive`, a tiling with more
// tiles wins even if it does not refine the current one. Arguments and result are canonical; the
// result is never `current` itself.
const Sharding* Improve(DerivedShardings& derive, const Shape* shape, const Sharding* current,
                        const Sharding* offered, bool combine, bool aggressive);

// Same as Improve for one leaf of a tuple; a tiling with more tiles wins even if it does not refine
// the current one. Both shardings are non-null.
const Sharding* ImproveLeaf(DerivedShardings& derive, const Sharding* current,
                            const Sharding* offered, bool combine);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_
