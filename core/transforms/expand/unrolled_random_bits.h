// Threefry, the generator of jax.random, written out as accelerators get it.
//
// JAX prints it for CPUs, which is what a laptop without an accelerator asks for, as a loop of five
// trips that carries two arrays of bits. For TPUs and GPUs it prints the operations of all trips,
// which run in the kernel that uses the bits: a dropout's mask is in no memory there.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_

#include "ir/module.h"

namespace gshard {

// Is it a loop of at most eight trips whose body does nothing but elementwise operations on
// integers? Calls in it must have been inlined.
bool MakesRandomBits(const Instruction* loop);

// Replaces such loops by the operations of their trips. True if there was one. Linear in the module
// and in what is written out.
bool UnrollRandomBits(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_
