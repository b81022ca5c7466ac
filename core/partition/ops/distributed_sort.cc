#include "core/partition/ops/distributed_sort.h"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <vector>

#include "core/partition/ops/sort_order.h"
#include "core/partition/scope/halo.h"
#include "ir/dims.h"

namespace gshard {

namespace {

// Comparisons (i, i + distance) of all i with (i & mask) == bits.
struct NetworkRound {
  int64_t mask = 0, bits = 0, distance = 0;
};

// Algorithm M: merge exchange of any number of tiles.
std::vector<NetworkRound> MergeExchange(int64_t tiles) {
  std::vector<NetworkRound> rounds;
  auto top = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tiles))) / 2;
  for (int64_t p = top; p > 0; p /= 2) {
    int64_t bits = 0, distance = p;
    for (int64_t q = top;; q /= 2) {
      rounds.push_back({p, bits, distance});
      if (q == p) break;
      distance = q - p;
      bits = p;
    }
  }
  return rounds;
}

class DistributedSorter {
 public:
  DistributedSorter(PartitionContext& rule, const DistributedSortPlan& plan,
                    const MeshLayout* layout)
      : rule_(rule),
        scope_(rule.scope()),
        builder_(rule.builder()),
        plan_(plan),
        layout_(layout),
        dim_(rule.attributes<SortAttributes>().dimension),
        axes_(layout->axes(dim_)),
        order_(rule.source(), TieOrder::kTotal, plan.has_padding()),
        comparator_(order_.Comparator(rule.scope())),
        ordinal_(rule.geometry().Ordinal(axes_, layout->order)),
        note_(fmt::format("{} sorts along a cut dim", rule.source().name())) {}

  PartitionedValue* Run() {
    std::vector<Instruction*> locals;
    auto count = static_cast<int64_t>(rule_.operands().size());
    for (int64_t i = 0; i < count; ++i) locals.push_back(rule_.Operand(i, layout_));
    values_ = order_.Prepare(scope_, locals, rule_.operand_shape(0), layout_, plan_.tile);
    if (plan_.kind == DistributedSortPlan::Kind::kColumns) {
      SortColumns();
    } else {
      SortByNetwork();
    }
    values_.resize(At(count));
    for (Instruction*& value : values_) value = Retiled(value);
    std::vector<const MeshLayout*> layouts(At(count), layout_);
    const Shape* shape = rule_.source().shape();
    if (shape->IsTuple()) return scope_.NewFromLocal(shape, layouts, builder_.Tuple(values_));
    rule_.TakeName(values_[0]);
    return rule_.Result(values_[0], layout_);
  }

 private:
  std::vector<Instruction*> Sorted(std::span<Instruction* const> values) {
    return SortTogether(builder_, values, {.dimension = dim_}, comparator_);
  }

  std::span<const int64_t> Dims() const { return values_[0]->shape()->dims(); }

  // --- columns: the tile of device j is column j of a matrix of `tile` rows.

  void SortColumns() {
    values_ = Sorted(values_);
    for (Instruction*& value : values_) value = Dealt(value);
    values_ = Sorted(values_);
    for (Instruction*& value : values_) {
      value = scope_.AllToAll(value, dim_, layout_, axes_, Cause());
    }
    values_ = Sorted(values_);
    MergeEdges();
  }

  // Row i to device i mod P: columns become rows.
  Instruction* Dealt(Instruction* x) {
    std::vector<int64_t> whole(x->shape()->dims().begin(), x->shape()->dims().end());
    std::vector<int64_t> split = whole;
    split[At(dim_)] = plan_.tile / plan_.tiles;
    split.insert(split.begin() + dim_ + 1, plan_.tiles);
    x = scope_.AllToAll(builder_.Reshape(x, split), dim_ + 1, layout_, axes_, Cause());
    return builder_.Reshape(x, whole);
  }

  // The last elements of every column with the first of the next one.
  void MergeEdges() {
    int64_t tiles = plan_.tiles, tile = plan_.tile, edge = (tiles - 1) * (tiles - 1);
    std::vector<int64_t> from_left(At(tiles)), from_right(At(tiles));
    for (int64_t i = 0; i < tiles; ++i) {
      from_left[At(i)] = i - 1;
      from_right[At(i)] = i + 1 < tiles ? i + 1 : -1;
    }
    std::vector<Instruction*> edges;
    for (Instruction* value : values_) {
      Instruction* parts[] = {Permuted(Slice(value, tile - edge, tile), from_left),
                              Slice(value, 0, edge)};
      edges.push_back(builder_.Concatenate(parts, dim_));
    }
    edges = Sorted(edges);
    Instruction* is_first = Is(ComparisonDirection::kEq, ordinal_, 0);
    Instruction* is_last = Is(ComparisonDirection::kEq, ordinal_, tiles - 1);
    for (size_t v = 0; v < values_.size(); ++v) {
      Instruction* lower = Permuted(Slice(edges[v], 0, edge), from_right);
      Instruction* parts[] = {
          Chosen(is_first, Slice(values_[v], 0, edge), Slice(edges[v], edge, 2 * edge)),
          Slice(values_[v], edge, tile - edge),
          Chosen(is_last, Slice(values_[v], tile - edge, tile), lower)};
      std::span<Instruction* const> kept(parts);
      if (tile == 2 * edge) {
        parts[1] = parts[2];
        kept = kept.first(2);
      }
      values_[v] = builder_.Concatenate(kept, dim_);
    }
  }

  // --- network

  void SortByNetwork() {
    // Tiles that are all padding are where they belong.
    int64_t filled = CeilOfRatio(plan_.size, plan_.tile);
    values_ = Sorted(values_);
    for (const NetworkRound& round : MergeExchange(filled)) {
      Exchange(round, filled);
      values_ = Sorted(values_);
    }
  }

  // The lower tile of each pair gets the lower half of both: the smaller of its element k and the
  // other's k-th last, which leaves tiles that rise and then fall.
  void Exchange(const NetworkRound& round, int64_t filled) {
    std::vector<int64_t> source_of(At(plan_.tiles), -1);
    for (int64_t i = 0; i + round.distance < filled; ++i) {
      if ((i & round.mask) != round.bits) continue;
      source_of[At(i)] = i + round.distance;
      source_of[At(i + round.distance)] = i;
    }
    std::vector<Instruction*> others, arguments;
    const int64_t sorted[] = {dim_};
    for (Instruction* value : values_) {
      Instruction* other[] = {Permuted(value, source_of)};
      others.push_back(
          builder_.Add(Opcode::kReverse, other, DimensionsAttributes{builder_.Copy(sorted)}));
      arguments.push_back(others.back());
      arguments.push_back(value);
    }
    std::vector<int64_t> dims;
    for (size_t d = 0; d < Dims().size(); ++d) dims.push_back(static_cast<int64_t>(d));
    Computation* called[] = {comparator_};
    Instruction* is_less =
        builder_.Add(Opcode::kMap, arguments, DimensionsAttributes{builder_.Copy(dims)},
                     rule_.context().Array(DType::kPred, Dims()), called);
    Instruction* is_lower = IsLower(round, filled);
    Instruction* is_upper = IsUpper(round, filled);
    Instruction* takes =
        builder_.Select(Spread(is_upper), Not(is_less), Both(Spread(is_lower), is_less));
    for (size_t v = 0; v < values_.size(); ++v) {
      values_[v] = builder_.Select(takes, others[v], values_[v]);
    }
  }

  // Is the device's tile the lower one of a pair? Conditions that hold anyway are left out.
  Instruction* IsLower(const NetworkRound& round, int64_t filled) {
    Instruction* is_lower = HasBits(round, ordinal_);
    if (AllMeet(round, filled)) return is_lower;
    return Both(is_lower, Is(ComparisonDirection::kLt, ordinal_, filled - round.distance));
  }

  Instruction* IsUpper(const NetworkRound& round, int64_t filled) {
    if (AllMeet(round, filled)) return Not(HasBits(round, ordinal_));
    Instruction* lower = builder_.Subtract(ordinal_, rule_.geometry().Int(round.distance));
    Instruction* is_upper = Both(HasBits(round, lower), Is(ComparisonDirection::kGe, lower, 0));
    if (filled == plan_.tiles) return is_upper;
    return Both(is_upper, Is(ComparisonDirection::kLt, ordinal_, filled));
  }

  // Has every tile a partner?
  bool AllMeet(const NetworkRound& round, int64_t filled) const {
    return round.bits == 0 && filled % (2 * round.mask) == 0 && filled == plan_.tiles;
  }

  Instruction* HasBits(const NetworkRound& round, Instruction* number) {
    Instruction* bits = builder_.Binary(Opcode::kAnd, number, rule_.geometry().Int(round.mask));
    return Is(ComparisonDirection::kEq, bits, round.bits);
  }

  // --- building

  ReshardCause Cause() const { return {.user = &rule_.source(), .note = note_}; }

  // Tiles as long as those of the layout, where they were longer while sorting.
  Instruction* Retiled(Instruction* x) {
    int64_t tile = CeilOfRatio(plan_.size, plan_.tiles);
    if (plan_.tile == tile) return x;
    return ExchangeHalo(scope_, x, {dim_, layout_, axes_},
                        {.shards = plan_.tiles,
                         .tile = plan_.tile,
                         .size = plan_.size,
                         .scale = tile,
                         .width = tile},
                        Cause());
  }

  Instruction* Permuted(Instruction* x, std::span<const int64_t> source_of) {
    return PermuteTiles(scope_, x, layout_, axes_, source_of, Cause());
  }
  Instruction* Slice(Instruction* x, int64_t start, int64_t limit) {
    return builder_.SliceDim(x, dim_, start, limit);
  }
  Instruction* Is(ComparisonDirection direction, Instruction* scalar, int64_t value) {
    return builder_.Compare(direction, scalar, rule_.geometry().Int(value));
  }
  Instruction* Both(Instruction* a, Instruction* b) { return builder_.Binary(Opcode::kAnd, a, b); }
  Instruction* Not(Instruction* x) { return builder_.Add(Opcode::kNot, {x}); }
  Instruction* Spread(Instruction* scalar) { return builder_.BroadcastScalar(scalar, Dims()); }
  Instruction* Chosen(Instruction* scalar, Instruction* on_true, Instruction* on_false) {
    return builder_.Select(builder_.BroadcastScalar(scalar, on_true->shape()->dims()), on_true,
                           on_false);
  }

  PartitionContext& rule_;
  PartitionScope& scope_;
  Builder& builder_;
  const DistributedSortPlan& plan_;
  const MeshLayout* layout_;
  int64_t dim_;
  AxisList axes_;
  SortOrder order_;
  Computation* comparator_;
  Instruction* ordinal_;  // of the device's tile
  std::string note_;      // why collectives are there
  std::vector<Instruction*> values_;
};

}  // namespace

DistributedSortPlan PlanDistributedSort(int64_t size, int64_t tiles) {
  int64_t tile = CeilOfRatio(size, tiles);
  DistributedSortPlan network{.size = size, .tiles = tiles, .tile = tile};
  network.messages = static_cast<int64_t>(MergeExchange(CeilOfRatio(size, tile)).size());
  network.elements = network.messages * tile;

  DistributedSortPlan columns = network;
  columns.kind = DistributedSortPlan::Kind::kColumns;
  columns.tile = CeilOfRatio(tile, tiles) * tiles;
  int64_t edge = (tiles - 1) * (tiles - 1);
  if (columns.tile < 2 * edge) return network;
  columns.elements = 2 * columns.tile / tiles * (tiles - 1) + 2 * edge;
  columns.messages = 4;
  if (columns.tile != tile) {
    HaloRequest retile{
        .shards = tiles, .tile = columns.tile, .size = size, .scale = tile, .width = tile};
    HaloPlan halo = PlanHalo(retile);
    columns.elements += halo.elements_received;
    columns.messages += halo.messages;
  }
  return columns.elements < network.elements ? columns : network;
}

PartitionedValue* DistributedSort(PartitionContext& rule, const DistributedSortPlan& plan,
                                  const MeshLayout* layout) {
  return DistributedSorter(rule, plan, layout).Run();
}

}  // namespace gshard
