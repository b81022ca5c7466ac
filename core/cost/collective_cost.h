// What a collective moves over the network, by ring formulas (docs/cost.md, "Collectives").
#ifndef GSHARD_CORE_COST_COLLECTIVE_COST_H_
#define GSHARD_CORE_COST_COLLECTIVE_COST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cost/network.h"
#include "ir/instruction.h"
#include "ir/mesh.h"

namespace gshard {

struct CollectiveCost {
  std::string kind;               // "all-gather"; start halves of async pairs count as their kind
  std::vector<std::string> axes;  // mesh axes it runs along; empty if it follows none
  int64_t group_size = 1;
  double bytes_per_device = 0;  // what one device sends
  double time_s = 0;
  std::string_view algorithm;  // "ring", "one-shot", "bisection", ..; empty without a network
  // Of the network, that it runs on.
  std::vector<NetworkSegment> segments;
  std::string cause;  // frontend attribute gshard.cause, if any
};

// g members, V = bytes of the full (gathered) value: all-gather and reduce-scatter V(g-1)/g,
// all-reduce twice that, all-to-all (g-1)/g of the local size, collective-permute and -broadcast
// the local size. `instruction` must be a collective. `mesh` and `network` may be null: then
// without axes, without time.
CollectiveCost CostOfCollective(const Instruction& instruction, int64_t devices, const Mesh* mesh,
                                const Network* network);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_COLLECTIVE_COST_H_
