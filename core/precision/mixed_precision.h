// One type an operation: what reads floats of several types gets converts.
//
// HLO lets the floats that an operation reads differ in type (XLA: "mixed precision"): text of
// accelerators has bf16 beside f32. It then computes in the widest of them, which is the type of
// its result; a reduction in the types of its reducer's parameters.
//
//   ROOT r = f32[8] add(x, y)        =>    c = f32[8] convert(y)         y is bf16[8]
//                                          ROOT r = f32[8] add(x, c)
//
// So a backend's kernels read floats of one type. Products are left as they are: their kernels
// convert while they read (dot, ragged-dot, scaled-dot, convolution), and so do all-reduces.
#ifndef GSHARD_CORE_PRECISION_MIXED_PRECISION_H_
#define GSHARD_CORE_PRECISION_MIXED_PRECISION_H_

#include "ir/module.h"

namespace gshard {

// In place, in every computation; linear in the size of the module. The module is verified. True if
// there was anything to convert.
bool ConvertMixedPrecision(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_PRECISION_MIXED_PRECISION_H_
