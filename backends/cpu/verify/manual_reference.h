// The unpartitioned meaning of a graph with manual regions (shard_map): what is outside them is
// whole on every device, inside each device computes its own.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_MANUAL_REFERENCE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_MANUAL_REFERENCE_H_

#include "ir/module.h"

namespace gshard::cpu {

bool HasManualRegions(const Module& module);

// Replaces the shardings of a propagated module so that partitioning cuts and puts together values
// only where they enter and leave manual regions: everything else is replicated, inside regions
// over the axes that are not manual.
void ReplicateOutsideManual(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_MANUAL_REFERENCE_H_
