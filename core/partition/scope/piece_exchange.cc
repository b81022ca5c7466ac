#include "core/partition/scope/piece_exchange.h"

#include <algorithm>

#include "ir/dims.h"

namespace gshard {

namespace {

class PieceExchange {
 public:
  PieceExchange(PartitionScope& scope, std::span<Instruction* const> buffers, const ShardedDim& dim,
                int64_t width, const ReshardCause& cause)
      : scope_(scope),
        buffers_(buffers),
        dim_(dim.dim),
        layout_(dim.layout),
        axes_(dim.axes),
        shards_(AxesSize(dim.axes)),
        width_(width),
        cause_(cause) {}

  Instruction* Run(const PiecePlan& plan) {
    for (const PieceRound& round : plan.own) {
      std::vector<int64_t> begins;
      Instruction* packed = Packed(round, begins);
      std::vector<int64_t> place(At(shards_), kNone);
      for (const PieceMove& move : round.moves) {
        place[At(move.target)] = begins[At(move.buffer)] + move.from - move.to;
      }
      Place(packed, place, round);
    }
    for (const PieceRound& round : plan.rounds) Exchange(round);
    return result_;
  }

 private:
  static constexpr int64_t kNone = INT64_MIN;

  // One number per shard; shards without one (kNone) take what a shard before them has.
  struct Numbers {
    std::vector<int64_t> values;
    int64_t least = 0, greatest = 0;
  };
  static Numbers Filled(std::vector<int64_t> values) {
    auto known = std::find_if(values.begin(), values.end(), [](int64_t v) { return v != kNone; });
    int64_t last = known == values.end() ? 0 : *known;
    for (int64_t& value : values) {
      if (value == kNone) value = last;
      last = value;
    }
    auto [least, greatest] = std::minmax_element(values.begin(), values.end());
    Numbers numbers{{}, *least, *greatest};
    numbers.values = std::move(values);
    return numbers;
  }
  Instruction* Lookup(const Numbers& numbers) {
    return scope_.geometry().Lookup(axes_, layout_->order, numbers.values);
  }
  // `width` elements of `x` from a shard's number on.
  Instruction* Sliced(Instruction* x, std::vector<int64_t> starts, int64_t width) {
    Numbers numbers = Filled(std::move(starts));
    Instruction* start = numbers.least == numbers.greatest ? nullptr : Lookup(numbers);
    return SliceRange(scope_, x, dim_, {start, 0, numbers.least, numbers.greatest}, width, nullptr);
  }

  // The buffers a round takes from, one behind the other, and where each begins.
  Instruction* Packed(const PieceRound& round, std::vector<int64_t>& begins) {
    std::vector<uint8_t> used(buffers_.size(), 0);
    for (const PieceMove& move : round.moves) used[At(move.buffer)] = 1;
    std::vector<Instruction*> parts;
    int64_t begin = 0;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      begins.push_back(begin);
      if (used[i] == 0) continue;
      parts.push_back(buffers_[i]);
      begin += buffers_[i]->shape()->dim(dim_);
    }
    return scope_.builder().Concatenate(parts, dim_);
  }

  void Exchange(const PieceRound& round) {
    std::vector<int64_t> begins;
    Instruction* packed = Packed(round, begins);
    // A piece near the end travels with what stands before it.
    int64_t last = std::max<int64_t>(0, packed->shape()->dim(dim_) - round.length);
    std::vector<int64_t> taken(At(shards_), kNone), place(At(shards_), kNone);
    std::vector<int64_t> source_of(At(shards_), -1);
    for (const PieceMove& move : round.moves) {
      int64_t from = begins[At(move.buffer)] + move.from;
      taken[At(move.source)] = std::min(from, last);
      place[At(move.target)] = from - std::min(from, last) - move.to;
      source_of[At(move.target)] = move.source;
    }
    Instruction* sent = Sliced(packed, std::move(taken), round.length);
    Place(PermuteTiles(scope_, sent, layout_, axes_, source_of, cause_), std::move(place), round);
  }

  // Element e of the result is element place + e of `part`, in the piece of the round.
  void Place(Instruction* part, std::vector<int64_t> place, const PieceRound& round) {
    part = Sliced(part, std::move(place), width_);
    if (result_ == nullptr) {
      result_ = part;
      return;
    }
    // Shards without a piece keep what they have.
    std::vector<int64_t> begin(At(shards_), width_), end(At(shards_), width_);
    for (const PieceMove& move : round.moves) {
      begin[At(move.target)] = move.to;
      end[At(move.target)] = move.to + move.length;
    }
    Numbers low = Filled(std::move(begin)), high = Filled(std::move(end));
    Builder& builder = scope_.builder();
    std::span<const int64_t> dims = part->shape()->dims();
    Instruction* positions = scope_.geometry().Positions(dims, dim_, scope_.geometry().Int(0));
    Instruction* mask = nullptr;
    if (low.greatest > 0) {
      Instruction* bound = builder.BroadcastScalar(Lookup(low), dims);
      mask = builder.Compare(ComparisonDirection::kGe, positions, bound);
    }
    if (high.least < width_) {
      Instruction* bound = builder.BroadcastScalar(Lookup(high), dims);
      Instruction* before = builder.Compare(ComparisonDirection::kLt, positions, bound);
      mask = mask == nullptr ? before : builder.Binary(Opcode::kAnd, mask, before);
    }
    result_ = mask == nullptr ? part : builder.Select(mask, part, result_);
  }

  PartitionScope& scope_;
  std::span<Instruction* const> buffers_;
  int64_t dim_;
  const MeshLayout* layout_;
  AxisSpan axes_;
  int64_t shards_;
  int64_t width_;
  const ReshardCause& cause_;
  Instruction* result_ = nullptr;
};

}  // namespace

Instruction* ExchangePieces(PartitionScope& scope, std::span<Instruction* const> buffers,
                            const ShardedDim& dim, const PiecePlan& plan, int64_t width,
                            const ReshardCause& cause) {
  return PieceExchange(scope, buffers, dim, width, cause).Run(plan);
}

}  // namespace gshard
