// Ragged-dots as the dense products that most of XLA's compilers make of them: copies of all rows
// for each group, the other groups' masked.
//
//   y = ragged-dot(x[m,k], w[g,k,n], sizes[g])
//     =>  y = dot(select(mask[g,m], broadcast(x)[g,m,k], 0), w) over g and k
//   d = ragged-dot(x[m,k], y[m,n], sizes[g]) over m
//     =>  d[g,k,n] = dot(the same of x, the same of y) over m, a batch for each group
//
// That is g times the multiplications, and, where no kernel masks what it multiplies, g times the
// rows in memory (docs/against_gpu.md).
#ifndef GSHARD_CORE_TRANSFORMS_DENSE_RAGGED_DOTS_H_
#define GSHARD_CORE_TRANSFORMS_DENSE_RAGGED_DOTS_H_

#include "ir/module.h"

namespace gshard {

bool HasRaggedDots(const Module& module);

// Changes `module` so; true if there was anything to change. The products say how many groups they
// have (kRaggedGroupsAttribute). Those whose batch is ragged, which are dense as they are, and
// those with sizes for each element of a batch stay. Linear.
bool MakeRaggedDotsDense(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_DENSE_RAGGED_DOTS_H_
