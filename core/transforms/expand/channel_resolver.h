// Sends and receives between devices, as collectives: a send and the recv of its channel, in one
// computation, are a collective-permute from the devices that send to those that
// receive. It happens where the recv is: what the recv-done returns may have come around a loop.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_CHANNEL_RESOLVER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_CHANNEL_RESOLVER_H_

#include "ir/module.h"

namespace gshard {

// Of the program of one device. Errors: the problems of core/analysis/channels.h, the first of
// them. True if there were channels.
Expected<bool> ResolveChannels(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_CHANNEL_RESOLVER_H_
