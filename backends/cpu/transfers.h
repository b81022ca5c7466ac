// Sends, receives and the host, in terms of what the mesh can run.
//
// A send and the recv of its channel, in one computation, are a collective-permute from the devices
// that send to those that receive. What a host would feed is a parameter of the entry, what it is
// fed a result.
#ifndef GSHARD_BACKENDS_CPU_TRANSFERS_H_
#define GSHARD_BACKENDS_CPU_TRANSFERS_H_

#include "ir/module.h"

namespace gshard::cpu {

// infeed and host recv: parameters after the others, named like the instruction. outfeed and host
// send: results after the others. Before partitioning. Errors: E-RUN-HOST for those that are not in
// the entry computation.
Expected<void> ReplaceHostTransfers(Module& module);

// The other sends and receives. Which devices: frontend attribute
// _xla_send_recv_source_target_pairs={{from,to},..} of either, else sharding={maximal device=..} of
// both. After partitioning. Errors: E-RUN-DEADLOCK for a send without recv, the reverse, and for
// data that follow from what is received for them; E-RUN-CHANNEL for pairs that cannot be told.
Expected<void> PairChannels(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_TRANSFERS_H_
