#include "core/partition/plan/piece_plan.h"

#include <algorithm>

namespace gshard {

namespace {

constexpr int kFree = -1;

// Colours the edges of a bipartite graph of sources and targets, as many colours as the largest
// degree.
class Colouring {
 public:
  Colouring(int64_t shards, const std::vector<PieceMove>& moves) : moves_(moves) {
    std::vector<int64_t> sends(static_cast<size_t>(shards), 0), receives(sends);
    int64_t degree = 0;
    for (const PieceMove& move : moves) {
      degree = std::max({degree, ++sends[static_cast<size_t>(move.source)],
                         ++receives[static_cast<size_t>(move.target)]});
    }
    colours_ = static_cast<size_t>(degree);
    at_source_.assign(static_cast<size_t>(shards) * colours_, kFree);
    at_target_ = at_source_;
    colour_of_.assign(moves.size(), 0);
    for (size_t edge = 0; edge < moves.size(); ++edge) Add(edge);
  }

  size_t colours() const { return colours_; }
  size_t ColourOf(size_t edge) const { return colour_of_[edge]; }

 private:
  int& AtSource(int64_t shard, size_t colour) {
    return at_source_[static_cast<size_t>(shard) * colours_ + colour];
  }
  int& AtTarget(int64_t shard, size_t colour) {
    return at_target_[static_cast<size_t>(shard) * colours_ + colour];
  }

  void Add(size_t edge) {
    const PieceMove& move = moves_[edge];
    size_t a = colours_, b = colours_;  // free at the source, at the target
    for (size_t colour = 0; colour < colours_; ++colour) {
      bool source_free = AtSource(move.source, colour) == kFree;
      bool target_free = AtTarget(move.target, colour) == kFree;
      if (source_free && target_free) {
        a = b = colour;
        break;
      }
      if (source_free && a == colours_) a = colour;
      if (target_free && b == colours_) b = colour;
    }
    if (a != b) SwapPath(move.target, a, b);
    colour_of_[edge] = a;
    AtSource(move.source, a) = AtTarget(move.target, a) = static_cast<int>(edge);
  }

  // Frees `a` at the target: edges of colours a and b along the path from it trade colours. The
  // path cannot end at a source that lacks `a`.
  void SwapPath(int64_t target, size_t a, size_t b) {
    std::vector<int> path;
    int64_t vertex = target;
    bool is_target = true;
    for (size_t colour = a;; colour = colour == a ? b : a) {
      int edge = is_target ? AtTarget(vertex, colour) : AtSource(vertex, colour);
      if (edge == kFree) break;
      path.push_back(edge);
      const PieceMove& move = moves_[static_cast<size_t>(edge)];
      vertex = is_target ? move.source : move.target;
      is_target = !is_target;
    }
    for (int edge : path) {
      const PieceMove& move = moves_[static_cast<size_t>(edge)];
      size_t colour = colour_of_[static_cast<size_t>(edge)];
      AtSource(move.source, colour) = AtTarget(move.target, colour) = kFree;
    }
    for (int edge : path) {
      const PieceMove& move = moves_[static_cast<size_t>(edge)];
      size_t& colour = colour_of_[static_cast<size_t>(edge)];
      colour = colour == a ? b : a;
      AtSource(move.source, colour) = AtTarget(move.target, colour) = edge;
    }
  }

  const std::vector<PieceMove>& moves_;
  size_t colours_ = 0;
  std::vector<int> at_source_, at_target_;  // shard * colours + colour: the edge there
  std::vector<size_t> colour_of_;
};

}  // namespace

PiecePlan PlanPieces(int64_t shards, std::vector<PieceMove> moves) {
  std::stable_sort(moves.begin(), moves.end(),
                   [](const PieceMove& a, const PieceMove& b) { return a.length > b.length; });
  PiecePlan plan;
  std::vector<PieceMove> sent;
  std::vector<size_t> staying(static_cast<size_t>(shards), 0);
  for (const PieceMove& move : moves) {
    if (move.source != move.target) {
      sent.push_back(move);
      continue;
    }
    size_t& count = staying[static_cast<size_t>(move.source)];
    if (plan.own.size() <= count) plan.own.emplace_back();
    PieceRound& round = plan.own[count++];
    round.length = std::max(round.length, move.length);
    round.moves.push_back(move);
  }
  Colouring colouring(shards, sent);
  plan.rounds.resize(colouring.colours());
  for (size_t i = 0; i < sent.size(); ++i) {
    PieceRound& round = plan.rounds[colouring.ColourOf(i)];
    round.length = std::max(round.length, sent[i].length);
    round.moves.push_back(sent[i]);
  }
  for (const PieceRound& round : plan.rounds) plan.elements_received += round.length;
  return plan;
}

}  // namespace gshard
