// Sends and receives between devices, in terms of what the mesh can run: a send and the recv of its
// channel, in one computation, are a collective-permute from the devices that send to those that
// receive. It happens where the recv is: what the recv-done returns may have come around a loop.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_CHANNELS_H_
#define GSHARD_BACKENDS_CPU_EXPAND_CHANNELS_H_

#include "ir/module.h"

namespace gshard::cpu {

// Which devices: frontend attribute
// _xla_send_recv_source_target_pairs={{from,to},..} of either, else sharding={maximal device=..} of
// both. After partitioning. Errors: E-RUN-DEADLOCK for a send without recv, the reverse, and for
// data that follow from what is received for them; E-RUN-CHANNEL for pairs that cannot be told.
Expected<void> PairChannels(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_CHANNELS_H_
