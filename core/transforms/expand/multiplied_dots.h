// Dots without anything for a matrix unit, as multiplications: those that sum over nothing, and
// those whose operands have no dims of their own.
//
//   y[b,m,n] = dot(a[b,m], l[b,n])   =>   y = multiply(broadcast(a), broadcast(l))
//   z[b]     = dot(a[b,k], l[b,k])   =>   z = reduce(multiply(a, l))
//
// The einsums of state-space layers are full of them. XLA's compilers multiply so, in the kernel
// that reads the product and in any order of its dims (docs/against_tpu.md); a product of a TPU's
// matrix unit would keep its batch dims out of the tiles and pad what is left, one of a GPU's
// library would be written and read.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_MULTIPLIED_DOTS_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_MULTIPLIED_DOTS_H_

#include "ir/module.h"

namespace gshard {

// Changes `module` so; true if there was anything to change. Linear.
bool MultiplyDots(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_MULTIPLIED_DOTS_H_
