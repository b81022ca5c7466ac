// Threefry, the generator of jax.random, written out as accelerators get it.
//
// JAX prints it for CPUs, which is what a laptop without an accelerator asks for, as a loop of five
// trips that carries two arrays of bits. For TPUs and GPUs it prints the operations of all trips,
// which run in the kernel that uses the bits: a dropout's mask is in no memory there.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_

#include "ir/module.h"

namespace gshard {

// Replaces loops of at most eight trips whose bodies do nothing but elementwise operations on
// integers by the operations of their trips. Calls in their bodies must have been inlined. True if
// there was such a loop. Linear in the module and in what is written out.
bool UnrollRandomBits(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_UNROLLED_RANDOM_BITS_H_
