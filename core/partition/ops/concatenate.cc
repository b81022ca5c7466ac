// Concatenate: each shard of the result reads ranges of the operands' cut dim. Operands are
// exchanged one by one, or all together where that receives less. Part of the slice family.
#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/dim_range.h"
#include "core/partition/scope/piece_exchange.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// Result positions [at, at + size) along the dim are elements [start, start + size) of a value.
struct Piece {
  PartitionedValue* value = nullptr;
  const Instruction* source = nullptr;
  int64_t operand = 0;  // of the concatenate, which `value` is or is sliced for
  int64_t at = 0;
  int64_t start = 0;
  int64_t size = 0;
};

constexpr size_t kMaxPieces = 16;
constexpr size_t kMaxOperations = 4;
// Exchanges of single operands need no tables: they may receive this much more, or this part more.
constexpr double kTableOverhead = 128;
constexpr double kNearTie = 1.0 / 16;

// `value` after the elementwise operations of one operand each (innermost last), on the tiles it
// has.
PartitionedValue* Applied(PartitionContext& rule, const PartitionedValue& value,
                          std::span<const Instruction* const> operations) {
  const PartitionedValue::Variant& variant = value.variants[0];
  Instruction* local = variant.local;
  for (size_t i = operations.size(); i-- > 0;) {
    const Shape* shape = rule.context().WithDims(operations[i]->shape(), local->shape()->dims());
    Instruction* operands[] = {local};
    local = rule.builder().CloneWith(operations[i], operands, shape);
    local->set_sharding(nullptr);
  }
  const Shape* shape = rule.context().WithDims(operations[0]->shape(), value.shape->dims());
  return rule.scope().NewValue(shape, variant.layout, local);
}

// Looks through slices that cut the concatenated dim only: their operands are read directly, so
// that rotations and wrap-around pads are one exchange. What is done to slices on the way (the
// signs of rotary embeddings, for one) is done to whole tiles before.
Piece PieceOf(PartitionContext& rule, int64_t i, int64_t dim) {
  Piece piece{.value = rule.operand(i),
              .source = rule.source().operand(i),
              .operand = i,
              .size = rule.operand_shape(i)->dim(dim)};
  const Instruction* slice = piece.source;
  std::vector<const Instruction*> operations;
  // A bitcast-convert to another width changes the dims.
  while (IsElementwise(slice->opcode()) && slice->operand_count() == 1 &&
         SameDims(slice->shape(), slice->operand(0)->shape()) &&
         operations.size() < kMaxOperations) {
    operations.push_back(slice);
    slice = slice->operand(0);
  }
  if (slice->opcode() != Opcode::kSlice) return piece;
  const auto& attributes = slice->attributes<SliceAttributes>();
  const Shape* from = slice->operand(0)->shape();
  for (int64_t d = 0; d < from->rank(); ++d) {
    if (attributes.strides[At(d)] != 1) return piece;
    if (d != dim && from->dim(d) != slice->shape()->dim(d)) return piece;
  }
  PartitionedValue* whole = rule.scope().run().value_of[slice->operand(0)->id()];
  if (!operations.empty()) {
    bool has_tiles = !whole->variants.empty() && whole->variants[0].layout->unreduced.empty() &&
                     whole->variants[0].layout->kind == MeshLayout::Kind::kTiled;
    if (!has_tiles || !IsEverCut(*whole, dim)) return piece;
    whole = Applied(rule, *whole, operations);
  }
  piece.value = whole;
  piece.source = slice->operand(0);
  piece.start = attributes.starts[At(dim)];
  return piece;
}

DimRange RangeOf(const Piece& piece, int64_t dim, int64_t count) {
  return {.size = piece.value->shape->dim(dim),
          .scale = count,
          .bias = piece.start - piece.at,
          .length = count,
          .first = piece.start,
          .end = piece.start + piece.size};
}

// All elements of one value, starting somewhere in the middle?
bool IsRotation(std::span<const Piece> pieces, int64_t dim) {
  return pieces.size() == 2 && pieces[0].value == pieces[1].value && pieces[1].start == 0 &&
         pieces[0].start == pieces[1].size &&
         pieces[0].start + pieces[0].size == pieces[0].value->shape->dim(dim);
}

// Of the operands that have elements: the others give nothing, and are left out.
class ConcatenateRule {
 public:
  explicit ConcatenateRule(PartitionContext& rule)
      : rule_(rule),
        dim_(rule.attributes<DimensionsAttributes>().dimensions[0]),
        shape_(rule.source().shape()),
        size_(shape_->dim(dim_)) {
    int64_t at = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(rule.operands().size()); ++i) {
      if (HasNoElements(rule.operand_shape(i))) continue;
      operands_.push_back(rule.operand(i));
      pieces_.push_back(PieceOf(rule, i, dim_));
      pieces_.back().at = at;
      at += pieces_.back().size;
    }
    tiles_ = rule.wanted()->Count(dim_);
    for (const Piece& piece : pieces_) tiles_ = std::max(tiles_, MostTiles(*piece.value, dim_));
  }

  RuleResult Run() {
    Choose();
    const MeshLayout* result = strategy_.results[0];
    if (halo_.empty() || !result->IsSharded(dim_)) {
      std::vector<Instruction*> locals;
      for (size_t i = 0; i < pieces_.size(); ++i) {
        locals.push_back(rule_.Operand(pieces_[i].operand, strategy_.operands[i]));
      }
      if (locals.size() == 1) return rule_.Finish(locals[0], locals[0], result);
      return rule_.Emit(locals, strategy_.results);
    }
    if (IsRotation(pieces_, dim_) && halo_[0] != 0 && DividesEvenly(shape_, result, dim_)) {
      return Rotated();
    }
    int64_t shards = result->Count(dim_);
    Instruction* local = nullptr;
    if (std::optional<PiecePlan> together = PlanTogether(halo_, shards)) {
      local = Together(*together);
    } else {
      local = OneByOne();
    }
    return rule_.Finish(local, nullptr, result);
  }

 private:
  // Along the dim: nothing cut; or the result and those operands whose `halo` is set.
  Labels LabelsOf(const std::vector<uint8_t>& halo, bool is_cut) const {
    Labels labels = Labels::Pointwise(static_cast<int64_t>(pieces_.size()), shape_->rank());
    int label = labels.results[0][At(dim_)];
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (!is_cut || halo[i] == 0) labels.operands[i][At(dim_)] = Labels::kWhole;
    }
    if (is_cut) {
      labels.labels[At(label)].bytes_if_cut = ExchangeCost(halo);
    } else {
      labels.results[0][At(dim_)] = Labels::kWhole;
    }
    return labels;
  }

  double ExchangeCost(const std::vector<uint8_t>& halo) const {
    double message = rule_.scope().run().options.bytes_per_message;
    if (std::optional<PiecePlan> plan = PlanTogether(halo, tiles_)) {
      return static_cast<double>(plan->elements_received) * MeanRowBytes() +
             static_cast<double>(plan->rounds.size()) * message;
    }
    double cost = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (halo[i] == 0) continue;
      cost += HaloCost(rule_.scope(), *pieces_[i].value, dim_,
                       RangeOf(pieces_[i], dim_, CeilOfRatio(size_, tiles_)), tiles_);
    }
    return cost;
  }

  // Sets the strategy and, if the result is cut, which operands are exchanged.
  void Choose() {
    // Strategies are priced for the pieces' values, which differ in size from the operands.
    std::vector<PartitionedValue*> values;
    std::vector<uint8_t> seen;
    for (const Piece& piece : pieces_) {
      values.push_back(piece.value);
      seen.push_back(piece.value->maker == nullptr && IsEverCut(*piece.value, dim_) ? 1 : 0);
    }
    const Shape* results[] = {shape_};
    auto choose = [&](const Labels& labels, std::span<PartitionedValue* const> operands) {
      return ChooseStrategy(rule_.scope(), labels, operands, results, rule_.wanted_leaves());
    };
    std::vector<uint8_t> none(pieces_.size(), 0);
    strategy_ = choose(LabelsOf(none, false), operands_);
    if (tiles_ == 1 || pieces_.size() > kMaxPieces) return;
    for (const std::vector<uint8_t>& halo : {seen, std::vector<uint8_t>(pieces_.size(), 1), none}) {
      Strategy strategy = choose(LabelsOf(halo, true), values);
      if (strategy.cost < strategy_.cost) {
        strategy_ = std::move(strategy);
        halo_ = halo;
      }
    }
  }

  double MeanRowBytes() const {
    double bytes = 0;
    for (const Piece& piece : pieces_) bytes += RowBytes(*piece.value, dim_);
    return bytes / static_cast<double>(pieces_.size());
  }

  // What moves if all operands are exchanged together; nothing if one by one is about as good.
  std::optional<PiecePlan> PlanTogether(const std::vector<uint8_t>& halo, int64_t shards) const {
    int64_t tile = CeilOfRatio(size_, shards);
    double row = MeanRowBytes();
    double alone = 0;
    std::vector<PieceMove> moves;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (halo[i] != 0) {
        DimRange range = RangeOf(pieces_[i], dim_, tile);
        if (range.size > 0) {
          alone += row * static_cast<double>(PlanRange(range, shards, row).elements_received);
        }
      }
      if (!AppendMoves(i, halo[i] != 0, shards, tile, moves)) return std::nullopt;
    }
    if (alone <= kTableOverhead) return std::nullopt;
    PiecePlan plan = PlanPieces(shards, std::move(moves));
    double together = row * static_cast<double>(plan.elements_received);
    if (together + std::max(kTableOverhead, alone * kNearTie) > alone) return std::nullopt;
    return plan;
  }

  // False: too many.
  bool AppendMoves(size_t i, bool is_cut, int64_t shards, int64_t tile,
                   std::vector<PieceMove>& moves) const {
    const Piece& piece = pieces_[i];
    int64_t source_tile = CeilOfRatio(piece.value->shape->dim(dim_), shards);
    auto most = static_cast<size_t>(8 * shards) * pieces_.size();
    for (int64_t shard = 0; shard < shards; ++shard) {
      int64_t begin = std::max(shard * tile, piece.at);
      int64_t end = std::min((shard + 1) * tile, piece.at + piece.size);
      for (int64_t p = begin; p < end;) {
        int64_t element = piece.start + p - piece.at;
        PieceMove move{shard, shard, BufferOf(i), element, p - shard * tile, end - p};
        if (is_cut) {
          move.source = element / source_tile;
          move.from = element % source_tile;
          move.length = std::min(move.length, source_tile - move.from);
        }
        moves.push_back(move);
        p += move.length;
      }
      if (moves.size() > most) return false;
    }
    return true;
  }

  // Pieces of one value share its buffer.
  int64_t BufferOf(size_t i) const {
    size_t first = 0;
    while (pieces_[first].value != pieces_[i].value) ++first;
    return static_cast<int64_t>(first);
  }

  Instruction* LocalOf(size_t i) {
    ReshardCause cause{.user = &rule_.source(), .value = pieces_[i].source, .note = {}};
    return rule_.scope().Reshard(pieces_[i].value, strategy_.operands[i], cause);
  }

  PartitionedValue* Rotated() {
    const MeshLayout* result = strategy_.results[0];
    int64_t tile = CeilOfRatio(size_, result->Count(dim_));
    HaloRequest ring{.shards = result->Count(dim_),
                     .tile = tile,
                     .size = size_,
                     .scale = tile,
                     .bias = pieces_[0].start,
                     .width = tile,
                     .ring = true};
    Instruction* operand = LocalOf(0);
    Instruction* local =
        ExchangeHalo(rule_.scope(), operand, {dim_, strategy_.operands[0], result->axes(dim_)},
                     ring, rule_.Cause());
    return rule_.Finish(local, operand, result);
  }

  Instruction* Together(const PiecePlan& plan) {
    const MeshLayout* result = strategy_.results[0];
    std::vector<Instruction*> buffers;
    for (size_t i = 0; i < pieces_.size(); ++i) buffers.push_back(LocalOf(i));
    return ExchangePieces(rule_.scope(), buffers, {dim_, result, result->axes(dim_)}, plan,
                          CeilOfRatio(size_, result->Count(dim_)), rule_.Cause());
  }

  Instruction* OneByOne() {
    const MeshLayout* result = strategy_.results[0];
    int64_t tile = CeilOfRatio(size_, result->Count(dim_));
    Builder& builder = rule_.builder();
    Instruction* joined = nullptr;
    Instruction* positions = nullptr;
    for (size_t i = pieces_.size(); i-- > 0;) {
      Instruction* part =
          FetchPositions(rule_.scope(), LocalOf(i), {dim_, result, result->axes(dim_)},
                         strategy_.operands[i]->IsSharded(dim_), RangeOf(pieces_[i], dim_, tile),
                         nullptr, rule_.Cause());
      if (joined == nullptr) {
        joined = part;
        continue;
      }
      // `part` up to its end, what comes after it behind.
      std::span<const int64_t> dims = part->shape()->dims();
      if (positions == nullptr) {
        positions =
            rule_.geometry().Positions(dims, dim_, rule_.geometry().Offset(shape_, result, dim_));
      }
      Instruction* end =
          rule_.geometry().Int(pieces_[i].at + pieces_[i].size, positions->shape()->dtype());
      Instruction* before =
          builder.Compare(ComparisonDirection::kLt, positions, builder.BroadcastScalar(end, dims));
      joined = builder.Select(before, part, joined);
    }
    return joined;
  }

  PartitionContext& rule_;
  int64_t dim_;
  const Shape* shape_;
  int64_t size_;
  std::vector<PartitionedValue*> operands_;
  std::vector<Piece> pieces_;  // one an operand
  int64_t tiles_ = 1;          // most along the dim in sight
  Strategy strategy_;
  std::vector<uint8_t> halo_;  // empty: nothing is cut along the dim
};

}  // namespace

RuleResult Concatenate(PartitionContext& rule) { return ConcatenateRule(rule).Run(); }

}  // namespace gshard::partition_rules
