#include "core/pipeline/row_exchange.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/partition/plan/piece_plan.h"
#include "core/pipeline/emit/stage_ring.h"

namespace gshard::pipeline {
namespace {

constexpr int64_t kNone = -1;

// What one device does in one round.
struct Turn {
  int64_t sent = 0;      // the row that it sends, if others wait for one
  int64_t own = kNone;   // the row of its own that it copies; kNone: none
  int64_t to = kNone;    // where what arrives goes, or what is copied
  int64_t receives = 0;  // 1: something arrives
};

struct Round {
  size_t held = 0;                             // of which all rows are
  std::vector<Turn> turns;                     // by device
  std::vector<StageRing::Transfer> transfers;  // none: rows that stay are copied
};

// The rounds of the moves from one array.
void AddRounds(int64_t stages, std::span<const RowMove> moves, std::vector<Round>& rounds) {
  std::vector<PieceMove> pieces;
  for (const RowMove& move : moves) {
    if (move.source == move.target) continue;
    pieces.push_back({move.source, move.target, 0, move.from, move.to, 1});
  }
  const size_t begin = rounds.size();
  auto add = [&]() -> Round& {
    return rounds.emplace_back(
        Round{moves.front().held, std::vector<Turn>(static_cast<size_t>(stages)), {}});
  };
  for (const PieceRound& of : PlanPieces(stages, std::move(pieces)).rounds) {
    Round& round = add();
    for (const PieceMove& move : of.moves) {
      round.turns[static_cast<size_t>(move.source)].sent = move.from;
      Turn& target = round.turns[static_cast<size_t>(move.target)];
      target.to = move.to, target.receives = 1;
      round.transfers.push_back({move.source, move.target});
    }
    std::ranges::sort(round.transfers, {}, &StageRing::Transfer::source);
  }
  // Rows that stay are copied while nothing arrives.
  std::vector<size_t> next(static_cast<size_t>(stages), begin);
  for (const RowMove& move : moves) {
    if (move.source != move.target) continue;
    const auto d = static_cast<size_t>(move.source);
    while (next[d] < rounds.size() && rounds[next[d]].turns[d].to != kNone) ++next[d];
    if (next[d] == rounds.size()) add();
    Turn& turn = rounds[next[d]].turns[d];
    turn.own = move.from, turn.to = move.to;
  }
}

// Where nothing arrives and nothing is copied, what is written there is written again later, or is
// nobody's. True if that takes a row behind the last.
bool FillIdleTurns(std::span<const RowMove> moves, int64_t count, std::vector<Round>& rounds) {
  if (rounds.empty()) return false;
  const size_t stages = rounds.front().turns.size();
  std::vector<std::vector<bool>> is_free(stages,
                                         std::vector<bool>(static_cast<size_t>(count), true));
  for (const RowMove& move : moves) {
    is_free[static_cast<size_t>(move.target)][static_cast<size_t>(move.to)] = false;
  }
  bool has_spare = false;
  for (size_t d = 0; d < stages; ++d) {
    int64_t later = std::ranges::find(is_free[d], true) - is_free[d].begin();
    for (size_t i = rounds.size(); i-- > 0;) {
      int64_t& to = rounds[i].turns[d].to;
      if (to == kNone) {
        to = later;
        has_spare |= later == count;
      } else {
        later = to;
      }
    }
  }
  return has_spare;
}

class Exchange {
 public:
  Exchange(const Builder& b, const RegionShardings& shardings, const RowExchange& exchange)
      : b_(b.module(), b.computation()),
        shardings_(shardings),
        ring_(shardings),
        s_(exchange.s),
        types_(exchange.types) {
    b_.set_origin(b.origin());
  }

  Instruction* Run(const std::vector<Instruction*>& held, const std::vector<Round>& rounds,
                   int64_t count, bool has_spare) {
    const size_t begin = b_.computation()->instructions().size();
    std::vector<int64_t> dims(held[0]->shape()->dims().begin(), held[0]->shape()->dims().end());
    dims[0] = count + (has_spare ? 1 : 0);
    const DType type = types_.empty() ? held[0]->shape()->dtype() : types_.back();
    stage_ = ring_.Coordinate(b_);
    Instruction* rows = Lies(b_.Zero(b_.context().Array(type, dims)));
    for (const auto& [from, turns, transfers] : rounds) {
      Instruction* row = nullptr;
      if (!transfers.empty()) {
        row = Lies(ring_.Send(b_, RowAt(held[from], turns, &Turn::sent), transfers,
                              "rows of layers for the stages that have their places"));
      }
      if (row == nullptr || std::ranges::any_of(turns, [](const Turn& t) { return t.own >= 0; })) {
        Instruction* own = RowAt(held[from], turns, &Turn::own);
        row = row == nullptr ? own : Lies(b_.Select(Receives(turns, own), row, own));
      }
      rows = Lies(b_.DynamicUpdateDim(rows, row, 0, OfStage(turns, &Turn::to)));
    }
    if (has_spare) rows = Lies(b_.SliceDim(rows, 0, 0, count));
    for (Instruction* x : b_.computation()->instructions().subspan(begin)) ring_.MarkManual(x);
    return rows;
  }

  // One behind the other.
  Instruction* Joined(std::span<Instruction* const> held) { return Lies(b_.Concatenate(held, 0)); }

 private:
  // Over the other axes as the rows that come in.
  Instruction* Lies(Instruction* x) const {
    x->set_sharding(shardings_.Inside(x->shape()->rank(), s_));
    return x;
  }

  // The number of this device's stage.
  Instruction* OfStage(const std::vector<Turn>& turns, int64_t Turn::*number) {
    std::vector<int64_t> numbers;
    for (const Turn& turn : turns) numbers.push_back(std::max<int64_t>(turn.*number, 0));
    if (std::ranges::count(numbers, numbers[0]) == std::ssize(numbers)) {
      return b_.ScalarInt(DType::kS32, numbers[0]);
    }
    Instruction* const starts[] = {stage_};
    const int64_t sizes[] = {1};
    // A table of the region: nobody is to cut it over the stages.
    Instruction* table = b_.IntegerTable(DType::kS32, numbers);
    table->set_sharding(shardings_.Inside(1, nullptr));
    Instruction* one = b_.DynamicSlice(table, starts, sizes);
    return b_.Reshape(one, {});
  }

  Instruction* RowAt(Instruction* x, const std::vector<Turn>& turns, int64_t Turn::*number) {
    x = Lies(b_.DynamicSliceDim(x, 0, OfStage(turns, number), 1));
    for (const DType type : types_) x = Lies(b_.Convert(x, type));
    return x;
  }

  Instruction* Receives(const std::vector<Turn>& turns, const Instruction* row) {
    Instruction* is_one = b_.Compare(ComparisonDirection::kEq, OfStage(turns, &Turn::receives),
                                     b_.ScalarInt(DType::kS32, 1));
    return b_.BroadcastScalar(is_one, row->shape()->dims());
  }

  Builder b_;  // scalars of the region are its own
  const RegionShardings& shardings_;
  StageRing ring_;
  const Sharding* s_;
  std::span<const DType> types_;
  Instruction* stage_ = nullptr;
};

}  // namespace

int64_t FewestPermutes(int64_t stages, std::span<const RowMove> moves) {
  std::vector<int64_t> sends(static_cast<size_t>(stages), 0), receives(sends);
  int64_t most = 0;
  for (const RowMove& move : moves) {
    if (move.source == move.target) continue;
    most = std::max({most, ++sends[static_cast<size_t>(move.source)],
                     ++receives[static_cast<size_t>(move.target)]});
  }
  return most;
}

Instruction* ExchangeRows(const Builder& b, const RegionShardings& shardings,
                          const RowExchange& exchange) {
  const int64_t stages = shardings.stages();
  std::vector<Instruction*> held(exchange.held.begin(), exchange.held.end());
  std::vector<std::vector<RowMove>> moves(held.size());
  for (const RowMove& move : exchange.moves) moves[move.held].push_back(move);
  int64_t apart = 0;
  for (const auto& of : moves) apart += FewestPermutes(stages, of);
  Exchange emitted(b, shardings, exchange);
  if (apart > FewestPermutes(stages, exchange.moves)) {
    std::vector<RowMove> all(exchange.moves.begin(), exchange.moves.end());
    std::vector<int64_t> begins = {0};
    for (const Instruction* x : held) begins.push_back(begins.back() + x->shape()->dim(0));
    for (RowMove& move : all) move.from += begins[std::exchange(move.held, 0)];
    moves = {std::move(all)};
    held = {emitted.Joined(held)};
  }
  std::vector<Round> rounds;
  for (const auto& of : moves) {
    if (!of.empty()) AddRounds(stages, of, rounds);
  }
  const bool has_spare = FillIdleTurns(exchange.moves, exchange.count, rounds);
  return emitted.Run(held, rounds, exchange.count, has_spare);
}

}  // namespace gshard::pipeline
