// What casts to 8-bit floats are made of: the largest magnitude that an array is scaled by, and
// casts whose scale is known before. Both functions are pure and may be called from any thread.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_SCALED_CASTS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_SCALED_CASTS_H_

#include "ir/module.h"

namespace gshard {

// The largest magnitude of an array, by which it is scaled for an 8-bit type.
bool IsLargestMagnitude(const Instruction* x);

// A cast to an 8-bit float of what is scaled and clamped, by a scale that is known before: of
// earlier steps (delayed scaling).
bool IsCastByKnownScale(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_SCALED_CASTS_H_
