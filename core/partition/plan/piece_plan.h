// Pieces of tiles that change hands along one sharded dim, packed into few collective-permutes: in
// each, every shard sends to at most one other and receives from at most one other. As many rounds
// as a shard has pieces to send or to receive, by König's edge colouring; long pieces share rounds,
// so that little is sent in vain. Pure arithmetic; emission is in piece_exchange.h.
#ifndef GSHARD_CORE_PARTITION_PLAN_PIECE_PLAN_H_
#define GSHARD_CORE_PARTITION_PLAN_PIECE_PLAN_H_

#include <cstdint>
#include <vector>

namespace gshard {

// Elements [from, from + length) of shard `source`'s tile of buffer `buffer` become elements
// [to, to + length) of shard `target`'s result.
struct PieceMove {
  int64_t source = 0, target = 0;
  int64_t buffer = 0;
  int64_t from = 0, to = 0;
  int64_t length = 0;
};

struct PieceRound {
  int64_t length = 0;  // of the longest move
  std::vector<PieceMove> moves;
};

struct PiecePlan {
  // Pieces that stay where they are: at most one per shard in each of these.
  std::vector<PieceRound> own;
  std::vector<PieceRound> rounds;
  int64_t elements_received = 0;  // per device
};

// O(moves * (rounds + shards)).
PiecePlan PlanPieces(int64_t shards, std::vector<PieceMove> moves);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_PIECE_PLAN_H_
