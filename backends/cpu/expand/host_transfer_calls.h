// Where infeeds, outfeeds and host sends and receives stand, and how computations that have them
// come to have one caller each, so that each can be given its feeds (host_transfers.h).
#ifndef GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFER_CALLS_H_
#define GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFER_CALLS_H_

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard::cpu {

bool IsHostTransfer(const Instruction& x);
// Also in what it calls.
bool HoldsHostTransfer(const Computation& computation);

// Inlines calls and asynchronous computations with transfers, expands scans (scan_loop.h) and turns
// loops whose condition has some, so that only loops and branches are left to hold them. Does
// nothing where all transfers are in the entry. Errors: of shardings that cannot be read and of
// calls that cannot be inlined.
Expected<void> UnshareHostTransfers(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFER_CALLS_H_
