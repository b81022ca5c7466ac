// Which elements along one sharded dim a device needs from which others (GSPMD paper, section 4.3;
// docs/partitioning.md, "Halo exchange"). Pure arithmetic; emission is in halo.h.
#ifndef GSHARD_CORE_PARTITION_PLAN_HALO_PLAN_H_
#define GSHARD_CORE_PARTITION_PLAN_HALO_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace gshard {

// Shard i of `shards` holds elements [i * tile, (i + 1) * tile) of a dim; it wants
// [start(i), start(i) + width) with start(i) = floor((scale * i + bias) / divisor), of which only
// [begin, size) has to arrive (0 <= begin, size <= shards * tile).
struct HaloRequest {
  int64_t shards = 1;
  int64_t tile = 1;
  int64_t size = 0;
  int64_t begin = 0;
  int64_t scale = 0, bias = 0, divisor = 1;
  int64_t width = 0;
  // True: positions count modulo shards * tile, and `begin` and `size` are not looked at; scale
  // must be `tile`, divisor 1.
  bool ring = false;
  // Where shards need less than their range: the elements [first, second) that have to arrive, per
  // shard; empty: all.
  std::vector<std::pair<int64_t, int64_t>> needs = {};
  // Size in bytes of the local array at one index of the dim: its bytes divided by `tile`. Weighs
  // bytes received against the number of messages.
  double row_bytes = 64;

  int64_t Start(int64_t i) const;
};

// Elements [low, high) of the tile of shard i + distance (modulo shards in a ring), received by the
// shards listed. One static range serves all receivers.
struct HaloPiece {
  int64_t distance = 0;
  int64_t low = 0, high = 0;
  std::vector<int64_t> receivers;
};

// One collective-permute in which every shard sends to at most one other and receives from at most
// one other: (source, receiver) pairs; `length` elements serve all of them.
struct HaloRound {
  int64_t length = 0;
  std::vector<std::pair<int64_t, int64_t>> pairs;
};

struct HaloPlan {
  enum class Form : uint8_t {
    kNeighbours,  // one permute per distance, static ranges
    // Shard i hears from tile j in round (i + j) mod rounds.size(). The tiles that a shard reads
    // are a run, and so are the readers of a tile: no two of them meet in one round.
    kRounds,
    // Every shard reads the same range of one tile, of no tile more than one: one permute, of
    // pieces[0] by the pairs of rounds[0]. Reversals, for one.
    kOneTile,
    kGather,  // all tiles to everybody
  };
  Form form = Form::kNeighbours;
  // kNeighbours: in order of distance without gaps, own data (distance 0) included if anybody needs
  // it; all but the outer two are whole tiles.
  std::vector<HaloPiece> pieces;
  std::vector<HaloRound> rounds;
  bool reads_own = false;
  int64_t elements_received = 0;  // per device
  int64_t messages = 0;           // collectives
};

// O(shards * tiles that a shard reads).
HaloPlan PlanHalo(const HaloRequest& request);

// floor(a / b) for b > 0.
int64_t FloorOfRatio(int64_t a, int64_t b);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_HALO_PLAN_H_
