// Arrays that a loop carries, in the order of dims that its products read.
//
//                                        cache' = bitcast(transpose(cache))      [B,K,S,D] in
//                                        memory
//   cache = bf16[B,S,K,D] parameter      while: cache' = dynamic-update-slice(cache', ..)
//   while: cache = dynamic-update-slice(cache, ..)      s = dot(q, cache')
//          s = dot(q, cache)         =>  cache = bitcast(transpose(while's cache'))
//
// A batched product of the matrix unit reads its batch dims first, then what is left of the dims
// that it sums over and that it keeps, then the last of each. XLA's compiler for TPUs gives an
// array that a loop carries that order for the whole loop, copies it before the outermost loop, and
// afterwards back into the argument's memory, which stays reserved: a KV cache [batch, position,
// head, width] that the loop over tokens carries takes twice its memory (docs/against_tpu.md,
// "Arrays that a loop carries").
#ifndef GSHARD_CORE_TRANSFORMS_TPU_RELAID_CARRIES_H_
#define GSHARD_CORE_TRANSFORMS_TPU_RELAID_CARRIES_H_

#include "ir/module.h"

namespace gshard {

// Changes `module`, the program of one device, so: the transposes are the copies, and bitcasts give
// their results the shapes that the program has. True if there was anything to change. Arrays
// whose last dim does not fill the lanes of a tile (128) stay as they are: the compiler's own order
// of an argument is another then. A second run changes nothing. Time: linear in the entry and what
// its loops carry.
bool RelayCarries(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_TPU_RELAID_CARRIES_H_
