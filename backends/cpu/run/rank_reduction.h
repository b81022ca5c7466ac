// One rank's share of a reduction over several: the nodes of the trees that it computes, round by
// round (wire_plan.h).
#ifndef GSHARD_BACKENDS_CPU_RUN_RANK_REDUCTION_H_
#define GSHARD_BACKENDS_CPU_RUN_RANK_REDUCTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/plan/ranks/wire_plan.h"
#include "backends/cpu/run/workers.h"
#include "backends/mpi/ranks.h"

namespace gshard::cpu {

// The messages of one round, by peer.
struct RoundBuffers {
  std::map<int, mpi::Message> out, in;
  // Memory that this rank has for them.
  int64_t bytes() const;
};

// All arguments outlive this. `room` is for one reduction at a time.
class RankReduction {
 public:
  RankReduction(const WirePlan& wire, const CollectiveStep& step, std::byte* arena,
                Workers& workers, RankHolders& holders, mpi::GrowableBuffer& room,
                mpi::Ranks& ranks);

  uint32_t rounds() const { return rounds_; }
  // Computes this rank's nodes of a round: results go to their places, messages are ready to be
  // sent. What comes in belongs into the same buffers.
  RoundBuffers& Fold(uint32_t round);
  // After the exchange of that round.
  void Take(uint32_t round);
  // The last round whose sums read what came in a round: the same on all ranks, and no less than
  // that of the round before.
  uint32_t LastUse(uint32_t round) const { return last_use_[round]; }
  // What has come in by that round is no longer needed.
  void Release(uint32_t round);
  // Nor is what was sent: both have memory for later rounds.
  void Recycle(uint32_t round);
  // Of messages now, with what is kept for later rounds.
  int64_t buffer_bytes() const;

 private:
  // A node whose result leaves this rank, or is the root's.
  struct Target {
    uint32_t unit = 0;
    int32_t node = 0;
    std::byte* to = nullptr;      // null: a root, into `folded`
    std::byte* folded = nullptr;  // in `room_`
  };
  struct Task {
    size_t target = 0;
    int64_t begin = 0, end = 0;
  };

  const CollectivePart& PartOf(const WireUnit& unit) const { return step_.parts[unit.part]; }
  std::span<const WireMessage> MessagesOf(uint32_t round) const;
  int64_t FindTargets(uint32_t round, RoundBuffers& buffers);  // returns the work
  void RunTask(const Task& task, Scratch& scratch);
  void PackResults(uint32_t round, RoundBuffers& buffers);
  void PlaceResult(const WireUnit& unit, const std::byte* packed, const std::byte* whole);
  // Bytes [begin, end) of a unit's range: the node's partial result into `result`.
  void Evaluate(uint32_t id, int32_t n, int64_t begin, int64_t end, std::byte* result,
                Scratch& scratch) const;
  void EvaluateRun(uint32_t id, const WireUnit::Node& node, int64_t begin, int64_t end,
                   std::byte* result, Scratch& scratch) const;
  const std::byte* Received(uint32_t id, int32_t node, int64_t begin) const;

  const WirePlan& wire_;
  const CollectiveStep& step_;
  std::byte* arena_;
  Workers& workers_;
  mpi::GrowableBuffer& room_;
  mpi::Ranks& ranks_;
  const int rank_;
  std::vector<SequenceResults> results_;  // by part
  uint32_t rounds_ = 0;
  struct NodeOfUnit {
    uint32_t unit = 0;
    int32_t node = 0;
  };
  std::vector<std::vector<NodeOfUnit>> nodes_;          // by round: those that this rank computes
  std::vector<uint32_t> last_use_;                      // by round
  std::vector<std::unique_ptr<RoundBuffers>> buffers_;  // by round; null: recycled
  std::vector<std::unique_ptr<RoundBuffers>> spare_;
  std::vector<Target> targets_;
  std::vector<Task> tasks_;
  struct ReceivedPartial {
    uint32_t round = 0;
    const std::byte* data = nullptr;
  };
  std::map<std::pair<uint32_t, int32_t>, ReceivedPartial> received_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_RANK_REDUCTION_H_
