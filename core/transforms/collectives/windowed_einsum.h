// Looped einsums: the transfers of a large all-gather or reduce-scatter overlap with the dot that
// needs or makes the value (Wang et al., "Overlap Communication with Dependent Computation via
// Decomposition"; GSPMD paper, section 3.4 on looped collective einsums).
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_WINDOWED_EINSUM_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_WINDOWED_EINSUM_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard {

struct WindowedEinsumOptions {
  int64_t min_bytes = int64_t{256} << 20;  // of the gathered operand, or of what is scattered
  int64_t max_steps = 64;                  // members of a group
};

// In a group of n devices, device p of which keeps block p:
//
//   dot(all-gather(x), w)          n steps; at step i device p multiplies block (p + i) mod n of x,
//                                  which moves on to p - 1 meanwhile. The pieces are put side by
//                                  side (gathered rows or batches) or added up (gathered contracted
//                                  dim).
//   reduce-scatter(dot(x, w))      n steps; at step i device p adds its part of block (p + i + 1)
//                                  mod n of the result to what it got from p + 1, and sends it on.
//
// n - 1 steps are iterations of a while loop; one is outside, so that nothing is sent in vain.
// Bytes sent are those of the collective. Applies to collectives without another user. Scattered
// sums are added in ring order. True if something changed. Linear.
bool MakeWindowedEinsums(Module& module, const WindowedEinsumOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_WINDOWED_EINSUM_H_
