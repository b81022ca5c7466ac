// Broadcasts that a loop is only given, done in its body, by whoever reads them there.
//
//   mask = pred[32,8,1024,1024] broadcast(m)      while: m = gte(s, 3)
//   while: mask = gte(s, 3)                   =>         mask = pred[32,8,1024,1024] broadcast(m)
//          .. = select(mask, ..)                         .. = select(mask, ..)
//
// JAX moves what no iteration changes out of a scanned layer: a mask for all examples and heads,
// and the constant that stands in for what it hides. XLA's compiler for TPUs moves their broadcasts
// back: its loops carry what they are made of (docs/against_tpu.md).
#ifndef GSHARD_CORE_TRANSFORMS_TPU_SUNK_BROADCASTS_H_
#define GSHARD_CORE_TRANSFORMS_TPU_SUNK_BROADCASTS_H_

#include "ir/module.h"

namespace gshard {

// Changes `module`, the program of one device, so, through loops within loops; true if there was
// anything to change. What a loop changes, or another operation than a broadcast makes, stays
// where it is. A second run changes nothing. Time: linear in the module for each level of loops.
bool SinkBroadcasts(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_TPU_SUNK_BROADCASTS_H_
