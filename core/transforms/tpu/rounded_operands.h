// f32 values that a TPU only multiplies, made and kept as bf16.
//
//   stack f32[6,1024,4096]                   cast = bf16[6,1024,4096] convert(stack)
//   while: row = dynamic-slice(stack, i)     while: row = bf16[..] dynamic-slice(cast, i)
//          h = f32[..] maximum(..)       =>         h = f32[..] maximum(..)
//                                                   n = bf16[..] convert(h)
//          .. = dot(h, row)                         .. = dot(n, row)
//
// The matrix unit rounds f32 operands of products at DEFAULT precision to bf16
// (cloud.google.com/tpu/docs/bfloat16: the compiler inserts the conversion). XLA's compiler for
// TPUs rounds a value where it is made, if nobody reads all of its bits: the kernel that makes it
// writes bf16, a loop over layers is given one bf16 copy of their weights, made before the
// outermost loop or conditional around it, and a loop that stacks values for a later one stacks
// bf16. Programs compiled for v5p have each of these (docs/kernels.md). The casts made here have the
// frontend attribute gshard.rounding: kernels are cut as if they were not there.
#ifndef GSHARD_CORE_TRANSFORMS_TPU_ROUNDED_OPERANDS_H_
#define GSHARD_CORE_TRANSFORMS_TPU_ROUNDED_OPERANDS_H_

#include "ir/module.h"

namespace gshard {

// Changes `module`, the program of one device, so; true if there was anything to change. Values
// that something else reads, results of the program and what collectives move stay f32, and so do
// arguments that no loop is given: products round them as they read. Casts that the text has itself
// move in the same way. A second run changes nothing. Time: linear in the module.
bool RoundOperands(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_TPU_ROUNDED_OPERANDS_H_
