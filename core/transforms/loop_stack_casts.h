// f32 arrays that a loop only reads as bf16, cast before the loop instead of in it.
//
//   stack f32[6,1024,4096]                        cast = bf16[6,1024,4096] convert(stack)
//   while: row = dynamic-slice(stack, i)     =>   while: dynamic-slice(cast, i)
//          .. = convert(row)
//
// XLA's compiler for TPUs does so: a scanned network's weights have one copy of bf16, which both
// the forward and the backward loop read.
#ifndef GSHARD_CORE_TRANSFORMS_LOOP_STACK_CASTS_H_
#define GSHARD_CORE_TRANSFORMS_LOOP_STACK_CASTS_H_

#include "ir/module.h"

namespace gshard {

// True if the module changed.
bool CastLoopStacks(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_LOOP_STACK_CASTS_H_
