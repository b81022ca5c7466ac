// What ranks send one another for a collective: worked out from the plan that all of them have, so
// that nothing is negotiated, and can be counted without running.
//
//   every rank    local folds  ─►  one message a pair of ranks and round  ─►  local folds
//
// A rank has an instance of a value if one of its devices is in the class. It receives each missing
// instance once, even if several of its devices need it, into the place that its arena has for the
// instance (kept_instances.h). Reductions are the trees of fold.h: a rank folds what it has
// of a block (the rest of it goes on with the next rank's members), and the tree over the blocks
// runs where most of a node is. A group is cut into ranges with a root each, so that no rank sends
// more than the others (recursive halving: Thakur, Rabenseifner, Gropp 2005).
#ifndef GSHARD_BACKENDS_CPU_PLAN_RANKS_WIRE_PLAN_H_
#define GSHARD_BACKENDS_CPU_PLAN_RANKS_WIRE_PLAN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/cpu/mesh/rank_cut.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/plan/ranks/rank_holders.h"

namespace gshard::cpu {

// Bytes of the arena: `rows` of `row_bytes`, `stride` apart. The offset is this rank's, of a sender
// as of a receiver.
struct WirePiece {
  int64_t offset = 0;
  int64_t rows = 1, row_bytes = 0, stride = 0;
  int64_t bytes() const { return rows * row_bytes; }
  auto operator<=>(const WirePiece&) const = default;
};

// A part of the elements of all sequences' members, reduced by a tree of its own.
struct WireUnit {
  struct Node {
    int rank = 0;        // who computes it
    uint32_t round = 0;  // when; with its message at the end of that round
    // A block's run: members [first, last), after `left` (the run before, or none). Else left and
    // right.
    bool is_run = false;
    uint32_t first = 0, last = 0;
    int32_t left = -1, right = -1, parent = -1;
  };
  uint32_t part = 0, sequence = 0;
  WirePiece range;  // of an operand, from its begin
  std::vector<Node> nodes;
  int32_t root = -1;
  bool is_private = false;  // of a rank that has all members: for itself
};

struct WireItem {
  enum class Kind : uint8_t { kPiece, kPartial, kResult } kind = Kind::kPiece;
  int64_t offset = 0;  // in the message
  int64_t bytes = 0;
  WirePiece piece;  // kPiece: so many, `step` apart
  int64_t count = 1, step = 0;
  uint32_t unit = 0;  // kPartial, kResult
  int32_t node = -1;  // kPartial
};

struct WireMessage {
  int from = 0, to = 0;
  int64_t bytes = 0;
  std::vector<WireItem> items;
};

// Within a rank's results: what has come once and is wanted twice. Both places have the same rows.
struct LocalCopy {
  WirePiece from;
  int64_t to = 0;  // offset
};

// Of one collective, or of the part of it that chains with fused accumulators leave over.
struct WirePlan {
  std::vector<WireUnit> units;
  std::vector<LocalCopy> copies;  // after the rounds
  // By round: the messages from or to the rank; and how much all ranks send together.
  std::vector<std::vector<WireMessage>> rounds;
  int64_t messages = 0, bytes = 0;
  // What all ranks must send at the least: copies once to each rank that has them not, reductions
  // twice between the ranks that take part (partial sums in the type they are summed in).
  int64_t least_bytes = 0;
};

// A piece that another rank wants: the offset is right where this rank is one of the two.
struct WireMove {
  int from = 0, to = 0;
  WirePiece piece;
};
WirePlan MakeWirePlan(const RankCut& cut, std::span<const WireMove> moves);

// Where the members of a reduction are: holder(sequence, member, rank).
using MemberHolder = std::function<bool(uint32_t, uint32_t, int)>;

// Of a step of `plan`; not for the rows of a ragged-all-to-all, which follow from its operands.
WirePlan MakeWirePlan(const Plan& plan, const CollectiveStep& step, RankHolders& holders);
// Of what reduces accumulators.
WirePlan MakeWirePlan(const CollectiveStep& reduction, const MemberHolder& holder,
                      RankHolders& holders);

// The ranks that have results of a reduction's sequence, and whether a rank has all its members.
class SequenceResults {
 public:
  SequenceResults(const CollectivePart& part, RankHolders& holders);
  bool Wants(uint32_t sequence, int rank) const;
  // Bytes of a unit's range that a rank wants; `visit(class, offset in its instance, offset in the
  // range, bytes)`.
  int64_t ForEach(uint32_t sequence, const WirePiece& range, int rank,
                  const std::function<void(uint32_t, int64_t, int64_t, int64_t)>& visit) const;

 private:
  bool IsWanted(uint32_t c, int rank) const {
    return c != kNoDevice && holders_[c * ranks_ + static_cast<size_t>(rank)] != 0;
  }
  std::span<const uint32_t> ClassesOf(uint32_t sequence) const {  // by block
    const auto blocks = static_cast<size_t>(part_.blocks);
    return std::span(class_of_).subspan(sequence * blocks, blocks);
  }
  const CollectivePart& part_;
  const size_t ranks_;
  const std::span<const uint8_t> holders_;  // [class][rank]
  std::vector<uint32_t> class_of_;          // by sequence and block
};

// The rows that a ragged-all-to-all moves between ranks, once its index operands are everywhere:
// `read(address, operand, index)` gives a number of them.
WirePlan MakeRaggedRows(const Plan& plan, const CollectiveStep& step, RankHolders& holders,
                        const std::function<int64_t(int64_t, size_t, int64_t)>& read);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_RANKS_WIRE_PLAN_H_
