// Sends and receives between devices: which send belongs to which recv, and who sends to whom.
#ifndef GSHARD_CORE_ANALYSIS_CHANNELS_H_
#define GSHARD_CORE_ANALYSIS_CHANNELS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "ir/module.h"

namespace gshard {

// send, recv and their -done, unless they exchange data with the host.
bool IsDeviceTransfer(const Instruction& x);

struct Channel {
  Instruction* send = nullptr;
  Instruction* recv = nullptr;
  std::vector<DevicePair> pairs;
};

struct ChannelProblem {
  Diagnostic error;
  const Instruction* instruction = nullptr;
  // False: devices that take turns get through it; it is the emulator that cannot.
  bool is_wrong = true;
};

// The channels of one computation; without problems they are whole and `order` is complete.
struct ComputationChannels {
  std::map<int64_t, Channel> by_id;
  // All instructions of the computation: what is sent stands before the recv that gets it.
  std::vector<Instruction*> order;
  std::vector<ChannelProblem> problems;
};

// Which devices: frontend attribute _xla_send_recv_source_target_pairs={{from,to},..} of either,
// else sharding={maximal device=..} of both. Problems: E-RUN-DEADLOCK for a send without recv, the
// reverse, and for data that follow from what is received for them; E-RUN-CHANNEL for a channel
// that has two of a kind or spans computations, shapes that differ, pairs that cannot be told.
ComputationChannels PairChannels(const Module& module, const Computation& computation);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_CHANNELS_H_
