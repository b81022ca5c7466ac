// What a collective moves over the network, in bytes by ring formulas, and how long it takes, by
// the fastest algorithm for its size (docs/cost.md, "Collectives").
#ifndef GSHARD_CORE_COST_COLLECTIVE_COST_H_
#define GSHARD_CORE_COST_COLLECTIVE_COST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/cost/network.h"
#include "ir/instruction.h"
#include "ir/mesh.h"

namespace gshard {

struct CollectiveCost {
  std::string kind;               // "all-gather"; start halves of async pairs count as their kind
  std::vector<std::string> axes;  // mesh axes it runs along; empty if it follows none
  int64_t group_size = 1;
  double bytes_per_device = 0;  // sent by one device; in a ring it receives as many
  double time_s = 0;
  std::string_view algorithm;  // "ring", "one-shot", "bisection", ..; empty without a network
  // Segments of the network that it runs on; all if it follows no axes.
  std::vector<NetworkSegment> segments;
  std::string cause;  // frontend attribute gshard.cause, if any
};

// Of one program's collectives, which have few different groups: their axes are remembered. Not for
// several threads.
class CollectiveCosts {
 public:
  // Without `mesh` (null) costs have no axes, without `network` (null) no time. Both must outlive
  // this.
  CollectiveCosts(int64_t devices, const Mesh* mesh, const Network* network)
      : devices_(devices), mesh_(mesh), network_(network) {}

  // Returns the cost of one execution of a collective. With g members in a group and V the bytes of
  // the full (gathered) value, bytes_per_device is V(g-1)/g for all-gather and reduce-scatter,
  // twice that for all-reduce, (g-1)/g of the local size for all-to-all, and the local size for
  // collective-permute and -broadcast.
  // `kind`: what the compiler makes of it; empty: what it is.
  CollectiveCost Of(const Instruction& collective, std::string_view kind = {});

 private:
  struct HashOfTiles {
    size_t operator()(const TileAssignment& tiles) const { return tiles.Hash(); }
  };
  std::vector<std::string> AxesOf(const ReplicaGroups& groups);

  int64_t devices_;
  const Mesh* mesh_;
  const Network* network_;
  std::unordered_map<TileAssignment, std::vector<std::string>, HashOfTiles> axes_of_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_COLLECTIVE_COST_H_
