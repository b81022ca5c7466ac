// scan as a while loop, where its body is more than kernels.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_SCAN_LOOP_H_
#define GSHARD_BACKENDS_CPU_EXPAND_SCAN_LOOP_H_

#include "ir/module.h"

namespace gshard::cpu {

// Scans whose bodies have loops, branches, collectives or transfers become while loops over (index,
// carries, outputs, inputs), which take and put one slice a turn. The others are kernels
// (ops/scan.cc). The body is called.
void ExpandScans(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_SCAN_LOOP_H_
