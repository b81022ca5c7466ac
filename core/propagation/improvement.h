// When a sharding offered to an instruction replaces the one it has (docs/propagation.md, "The
// improvement rule"). Pure functions over canonical shardings; the engine applies them.
#ifndef GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_
#define GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_

#include "core/propagation/derived_shardings.h"
#include "ir/sharding.h"

namespace gshard {

// Merges `current` into `offered`, leaf by leaf for tuples. A leaf succeeds if the two combine into
// more tiles than either (only with `combine`, both partially replicated) or if the offered one is
// more specific. Null if no leaf succeeds; leaves that do not succeed keep what was offered.
// Neither argument is null; tuples have equally many leaves.
const Sharding* MergeIntoOffer(DerivedShardings& derive, const Sharding* current,
                               const Sharding* offered, bool combine);

// What an instruction of `shape` with sharding `current` (null: none) takes from `offered`; null if
// it keeps what it has. With `aggressive`, a tiling with more tiles wins even if it cuts across the
// current one. Canonical in, canonical out; never `current` itself.
const Sharding* Improve(DerivedShardings& derive, const Shape* shape, const Sharding* current,
                        const Sharding* offered, bool combine, bool aggressive);

// The same for one leaf of an offer to a whole tuple, which may cut across; both non-null.
const Sharding* ImproveLeaf(DerivedShardings& derive, const Sharding* current,
                            const Sharding* offered, bool combine);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_IMPROVEMENT_H_
