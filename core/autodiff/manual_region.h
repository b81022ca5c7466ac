// The manual region that a value belongs to.
#ifndef GSHARD_CORE_AUTODIFF_MANUAL_REGION_H_
#define GSHARD_CORE_AUTODIFF_MANUAL_REGION_H_

#include <cstdint>

#include "ir/context.h"
#include "ir/instruction.h"

namespace gshard {

// Manual in all or in some axes. Null: no.
bool IsOfManualRegion(const Sharding* sharding);

// The sharding in which an array of `rank` is whole within the region of `x`. Where `x` itself does
// not tell, one of the values that it is computed from does. Without any the region is manual in all
// axes, as programs were before there were others.
const Sharding* ManualRegionOf(const Instruction* x, int64_t rank, Context& context);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_MANUAL_REGION_H_
