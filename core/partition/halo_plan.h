// Which elements along one sharded dim a device needs from which neighbours (GSPMD paper, section
// 4.3; docs/partitioning.md, "Halo exchange"). Pure arithmetic; emission is in halo.h.
#ifndef GSHARD_CORE_PARTITION_HALO_PLAN_H_
#define GSHARD_CORE_PARTITION_HALO_PLAN_H_

#include <cstdint>
#include <vector>

namespace gshard {

// Shard i of `shards` holds elements [i * tile, (i + 1) * tile) of a dim whose first `size` ones
// are data; it wants [start(i), start(i) + width) with start(i) = floor((scale * i + bias) /
// divisor). Elements outside [0, size) belong to nobody.
struct HaloRequest {
  int64_t shards = 1;
  int64_t tile = 1;
  int64_t size = 0;
  int64_t scale = 0, bias = 0, divisor = 1;
  int64_t width = 0;

  int64_t Start(int64_t i) const;
};

// Elements [low, high) of the tile of shard i + distance, received by the shards listed. One static
// range serves all receivers.
struct HaloPiece {
  int64_t distance = 0;
  int64_t low = 0, high = 0;
  std::vector<int64_t> receivers;
};

// Pieces in order of distance, own data (distance 0) included if anybody needs it.
struct HaloPlan {
  std::vector<HaloPiece> pieces;
  // Elements received per device.
  int64_t elements_received = 0;
};

// O(shards * pieces).
HaloPlan PlanHalo(const HaloRequest& request);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_HALO_PLAN_H_
