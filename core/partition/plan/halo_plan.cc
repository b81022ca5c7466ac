#include "core/partition/plan/halo_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace gshard {

namespace {

// Plans whose bytes differ by less than this part are compared by their messages.
constexpr double kNearTie = 1.0 / 16;
// Rounds need some forty scalar instructions and a dynamic-slice on either side: neighbours that
// receive only this many bytes more are simpler.
constexpr double kRoundsOverhead = 128;
// More messages than this have to save bytes, each so many.
constexpr int64_t kManyMessages = 16;
constexpr double kBytesPerExcessMessage = 64;

// Elements [begin, end) that shard i reads and the tiles [first, last] they lie in.
struct Run {
  int64_t begin = 0, end = 0;
  int64_t first = 0, last = -1;
};

Run RunOf(const HaloRequest& request, int64_t i, bool needs_only) {
  Run run;
  run.begin = request.Start(i);
  run.end = run.begin + request.width;
  if (!request.ring) {
    run.begin = std::max(run.begin, request.begin);
    run.end = std::min(run.end, request.size);
  }
  if (needs_only && !request.needs.empty()) {
    const auto& [first, end] = request.needs[static_cast<size_t>(i)];
    run.begin = std::max(run.begin, first);
    run.end = std::min(run.end, end);
  }
  if (run.begin >= run.end) return {};
  run.first = FloorOfRatio(run.begin, request.tile);
  run.last = FloorOfRatio(run.end - 1, request.tile);
  return run;
}

HaloPlan PlanGather(const HaloRequest& request) {
  HaloPlan plan;
  plan.form = HaloPlan::Form::kGather;
  plan.elements_received = request.tile * (request.shards - 1);
  plan.messages = 1;
  return plan;
}

// False if the distances in use have gaps.
bool PlanNeighbours(const HaloRequest& request, const std::vector<Run>& runs, HaloPlan& plan) {
  std::map<int64_t, HaloPiece> pieces;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (int64_t source = runs[i].first; source <= runs[i].last; ++source) {
      int64_t distance = source - static_cast<int64_t>(i);
      int64_t low = std::max(runs[i].begin - source * request.tile, int64_t{0});
      int64_t high = std::min(runs[i].end - source * request.tile, request.tile);
      auto [found, added] = pieces.try_emplace(distance, HaloPiece{distance, low, high, {}});
      HaloPiece& piece = found->second;
      piece.low = std::min(piece.low, low);
      piece.high = std::max(piece.high, high);
      piece.receivers.push_back(static_cast<int64_t>(i));
    }
  }
  for (auto& [distance, piece] : pieces) {
    if (!plan.pieces.empty() && plan.pieces.back().distance + 1 != distance) return false;
    plan.pieces.push_back(std::move(piece));
  }
  for (size_t k = 0; k < plan.pieces.size(); ++k) {
    HaloPiece& piece = plan.pieces[k];
    if (k > 0) piece.low = 0;
    if (k + 1 < plan.pieces.size()) piece.high = request.tile;
    if (piece.distance == 0) continue;
    plan.elements_received += piece.high - piece.low;
    ++plan.messages;
  }
  return true;
}

void PlanRounds(const HaloRequest& request, const std::vector<Run>& runs, HaloPlan& plan) {
  plan.form = HaloPlan::Form::kRounds;
  std::vector<int64_t> readers(static_cast<size_t>(request.shards), 0);
  int64_t rounds = 1;
  for (const Run& run : runs) {
    rounds = std::max(rounds, run.last - run.first + 1);
    for (int64_t source = run.first; source <= run.last; ++source) {
      rounds = std::max(rounds, ++readers[static_cast<size_t>(source)]);
    }
  }
  plan.rounds.resize(static_cast<size_t>(rounds));
  for (size_t i = 0; i < runs.size(); ++i) {
    auto receiver = static_cast<int64_t>(i);
    for (int64_t source = runs[i].first; source <= runs[i].last; ++source) {
      if (source == receiver) {
        plan.reads_own = true;
        continue;
      }
      HaloRound& round = plan.rounds[static_cast<size_t>((receiver + source) % rounds)];
      int64_t low = std::max(runs[i].begin, source * request.tile);
      int64_t high = std::min(runs[i].end, (source + 1) * request.tile);
      round.length = std::max(round.length, high - low);
      round.pairs.emplace_back(source, receiver);
    }
  }
  for (const HaloRound& round : plan.rounds) {
    plan.elements_received += round.length;
    plan.messages += round.pairs.empty() ? 0 : 1;
  }
}

double BytesOf(const HaloRequest& request, const HaloPlan& plan) {
  int64_t excess = std::max<int64_t>(0, plan.messages - kManyMessages);
  return request.row_bytes * static_cast<double>(plan.elements_received) +
         kBytesPerExcessMessage * static_cast<double>(excess);
}

// Fewer bytes first; messages decide between about equals.
bool IsBetter(const HaloRequest& request, const HaloPlan& a, const HaloPlan& b) {
  double difference = BytesOf(request, a) - BytesOf(request, b);
  double near = kNearTie * BytesOf(request, b);
  return std::abs(difference) > near ? difference < 0 : a.messages < b.messages;
}

// False if some shard reads from several tiles or elsewhere in its tile than the others.
bool PlanOneTile(const HaloRequest& request, const std::vector<Run>& runs, HaloPlan& plan) {
  plan.form = HaloPlan::Form::kOneTile;
  std::vector<uint8_t> is_read(static_cast<size_t>(request.shards), 0);
  HaloRound round;
  int64_t place = 0;  // of the first element wanted, in its tile
  bool moves = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    if (run.last < run.first) continue;
    auto receiver = static_cast<int64_t>(i);
    int64_t place_here = request.Start(receiver) - run.first * request.tile;
    if (round.pairs.empty()) place = place_here;
    uint8_t& read = is_read[static_cast<size_t>(run.first)];
    if (run.last != run.first || place_here != place || read != 0) return false;
    read = 1;
    round.pairs.emplace_back(run.first, receiver);
    moves |= run.first != receiver;
  }
  if (!moves) return false;
  HaloPiece piece;
  piece.low = std::max<int64_t>(place, 0);
  piece.high = std::min(place + request.width, request.tile);
  round.length = piece.high - piece.low;
  plan.elements_received = round.length;
  plan.messages = 1;
  plan.pieces.push_back(std::move(piece));
  plan.rounds.push_back(std::move(round));
  return true;
}

}  // namespace

int64_t FloorOfRatio(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

int64_t HaloRequest::Start(int64_t i) const { return FloorOfRatio(scale * i + bias, divisor); }

HaloPlan PlanHalo(const HaloRequest& request) {
  HaloPlan gather = PlanGather(request);
  // In rounds everybody computes from its range alone what is exchanged.
  std::vector<Run> runs, needed;
  int64_t tiles_read = 0;
  for (int64_t i = 0; i < request.shards; ++i) {
    runs.push_back(RunOf(request, i, /*needs_only=*/false));
    needed.push_back(RunOf(request, i, /*needs_only=*/true));
    tiles_read = std::max(tiles_read, runs.back().last - runs.back().first);
  }
  // Reading everything: there are as many distances as shards.
  if (!request.ring && request.shards > 16 && tiles_read == request.shards - 1) return gather;
  HaloPlan neighbours;
  bool has_neighbours = PlanNeighbours(request, needed, neighbours);
  if (request.ring) return neighbours;
  HaloPlan one_tile;
  if (PlanOneTile(request, runs, one_tile) && !IsBetter(request, gather, one_tile)) {
    return one_tile;
  }
  HaloPlan* best = has_neighbours ? &neighbours : nullptr;
  HaloPlan rounds;
  if (request.scale != 0) {
    PlanRounds(request, runs, rounds);
    if (best == nullptr || (IsBetter(request, rounds, *best) &&
                            BytesOf(request, rounds) + kRoundsOverhead < BytesOf(request, *best))) {
      best = &rounds;
    }
  }
  if (best == nullptr || IsBetter(request, gather, *best)) best = &gather;
  return std::move(*best);
}

}  // namespace gshard
