// Sorts and top-k. A sort is local on every dim but the sorted one, whose tiles move elsewhere, or
// are sorted where they are. Top-k along a cut dim takes the candidates of every tile, then the
// best of those; so does a slice of the first elements of a sort.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/partition/ops/distributed_sort.h"
#include "core/partition/ops/rules.h"
#include "core/partition/ops/sort_order.h"
#include "core/partition/scope/moving_tiles.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {}  // namespace

namespace {

// Bytes-equivalents of a collective of a distributed sort. More than elsewhere: each waits for the
// one before, and small sorts are not worth the many instructions.
constexpr double kBytesPerRound = 256;

// Bytes-equivalents of sorting in place along the dim.
double CostOf(const PartitionContext& rule, const DistributedSortPlan& plan) {
  const Instruction& sort = rule.source();
  const PartitionedValue& key = *rule.operand(0);
  SortOrder order(sort, TieOrder::kTotal, plan.has_padding());
  double element = static_cast<double>(order.extra_bytes());
  double values = order.extra_bytes() > 0 ? 1 : 0;
  for (const PartitionedValue* operand : rule.operands()) {
    element += StorageBytes(operand->shape->dtype());
    values += 1;
  }
  double rows =
      RowBytes(key, rule.attributes<SortAttributes>().dimension) / StorageBytes(key.shape->dtype());
  return static_cast<double>(plan.elements) * rows * element +
         static_cast<double>(plan.messages) * values * kBytesPerRound;
}

struct SortInPlace {
  DistributedSortPlan plan;
  Strategy strategy;
};

// Where tiles may stay along the sorted dim; nothing if no operand is cut there.
std::optional<SortInPlace> ChooseSortInPlace(PartitionContext& rule, Labels labels, int64_t dim) {
  int64_t size = rule.operand_shape(0)->dim(dim);
  int64_t tiles = 1;
  for (const PartitionedValue* operand : rule.operands()) {
    tiles = std::max(tiles, MostTiles(*operand, dim));
  }
  if (tiles == 1 || size < 2) return std::nullopt;
  SortInPlace choice{.plan = PlanDistributedSort(size, tiles), .strategy = {}};
  double estimate = CostOf(rule, choice.plan);
  int label = labels.Add({.max_tiles = tiles, .bytes_if_cut = estimate});
  for (std::vector<int>& dims : labels.operands) dims[At(dim)] = label;
  for (std::vector<int>& dims : labels.results) dims[At(dim)] = label;
  choice.strategy = rule.Choose(labels);
  int64_t chosen = AxesSize(choice.strategy.cut[At(label)]);
  if (chosen == 1) return std::nullopt;
  if (chosen != tiles) {
    choice.plan = PlanDistributedSort(size, chosen);
    choice.strategy.cost += CostOf(rule, choice.plan) - estimate;
  }
  return choice;
}

}  // namespace

RuleResult Sort(PartitionContext& rule) {
  int64_t dim = rule.attributes<SortAttributes>().dimension;
  auto count = static_cast<int64_t>(rule.operands().size());
  Labels labels = Labels::Pointwise(count, rule.operand_shape(0)->rank());
  for (std::vector<int>& dims : labels.operands) dims[At(dim)] = Labels::kWhole;
  labels.results.assign(At(count), labels.operands[0]);
  Strategy whole = ChooseMovingTiles(rule, labels);
  std::optional<SortInPlace> in_place = ChooseSortInPlace(rule, labels, dim);
  if (in_place.has_value() && in_place->strategy.cost < whole.cost) {
    return DistributedSort(rule, in_place->plan, in_place->strategy.operands[0]);
  }
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < count; ++i) locals.push_back(rule.Operand(i, whole.operands[At(i)]));
  return rule.Emit(locals, whole.results);
}

namespace {

// Elements of `x` at `positions` along the last dim; the dims before correspond.
Instruction* TakeAlongLast(Builder& builder, Instruction* x, Instruction* positions) {
  int64_t rank = x->shape()->rank();
  std::vector<int64_t> batch, ones(At(rank), 1);
  for (int64_t d = 0; d + 1 < rank; ++d) batch.push_back(d);
  const int64_t last[] = {rank - 1};
  std::vector<int64_t> dims(positions->shape()->dims().begin(), positions->shape()->dims().end());
  dims.push_back(1);
  GatherAttributes gather;
  gather.collapsed_slice_dims = builder.Copy(last);
  gather.start_index_map = builder.Copy(last);
  gather.operand_batching_dims = builder.Copy(batch);
  gather.start_indices_batching_dims = builder.Copy(batch);
  gather.index_vector_dim = rank;
  gather.slice_sizes = builder.Copy(ones);
  Instruction* operands[] = {x, builder.Reshape(positions, dims)};
  return builder.Add(Opcode::kGather, operands, gather);
}

}  // namespace

RuleResult TopK(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* shape = rule.source().shape();
  bool is_pair = shape->IsTuple() && shape->elements().size() == 2 && shape->element(0)->IsArray();
  if (rule.operands().size() != 1 || !is_pair || from->rank() == 0 ||
      from->rank() != shape->element(0)->rank()) {
    return rule.Default();
  }
  int64_t dim = from->rank() - 1;
  int64_t k = shape->element(0)->dim(dim);
  Labels labels = Labels::Pointwise(1, from->rank());
  labels.operands[0][At(dim)] = labels.results[0][At(dim)] = Labels::kWhole;
  labels.results.push_back(labels.results[0]);
  Strategy strategy = ChooseMovingTiles(rule, labels);

  // Only the operation proper says whether the largest or the smallest are wanted; custom calls
  // take the largest.
  bool largest =
      rule.source().opcode() != Opcode::kTopK || rule.attributes<TopKAttributes>().largest;
  int64_t tiles = MostTiles(*rule.operand(0), dim);
  if (tiles > 1 && k > 0 && k < CeilOfRatio(from->dim(dim), tiles) &&
      HasLastInOrder(from->dtype())) {
    // The operand's sub-axes along the dim cut nothing of the results: every device has all
    // candidates in the end.
    Labels staged = labels;
    double bytes = static_cast<double>(shape->byte_size()) * static_cast<double>(tiles - 1);
    staged.operands[0][At(dim)] =
        staged.Add({.max_tiles = from->dim(dim) / k, .bytes_if_cut = bytes});
    Strategy other = rule.Choose(staged);
    if (other.cost < strategy.cost) strategy = std::move(other);
  }
  const MeshLayout* layout = strategy.operands[0];
  Instruction* local = rule.Operand(0, layout);
  Instruction* locals[] = {local};
  if (!layout->IsSharded(dim)) return rule.Emit(locals, strategy.results);

  Builder& builder = rule.builder();
  const int64_t cut_dims[] = {dim};
  locals[0] = MaskPadding(rule.scope(), local, from, layout, cut_dims,
                          LastInOrder(rule.scope(), from->dtype(), largest));
  const Shape* parts[2];
  for (int64_t i = 0; i < 2; ++i) {
    parts[i] = LocalShape(rule.context(), shape->element(i), strategy.results[At(i)]);
  }
  const Shape* local_shape = rule.context().Tuple(parts);
  Instruction* candidates = builder.CloneWith(&rule.source(), locals, local_shape);
  candidates->set_sharding(nullptr);
  candidates->set_extras(nullptr);
  Instruction* values = builder.GetTupleElement(candidates, 0);
  Instruction* indices = builder.GetTupleElement(candidates, 1);
  Instruction* offset =
      builder.Convert(rule.geometry().Offset(from, layout, dim), indices->shape()->dtype());
  indices = builder.Binary(Opcode::kAdd, indices,
                           builder.BroadcastScalar(offset, indices->shape()->dims()));
  const AxisList& axes = layout->axes(dim);
  locals[0] = rule.scope().AllGather(values, dim, layout, axes, rule.Cause());
  indices = rule.scope().AllGather(indices, dim, layout, axes, rule.Cause());
  // Candidates stand in order of their indices where values are equal, and the operation prefers
  // the first.
  Instruction* best = builder.CloneWith(&rule.source(), locals, local_shape);
  best->set_sharding(nullptr);
  best->set_extras(nullptr);
  Instruction* results[] = {builder.GetTupleElement(best, 0),
                            TakeAlongLast(builder, indices, builder.GetTupleElement(best, 1))};
  Instruction* pair = builder.Tuple(results);
  rule.TakeName(pair);
  return rule.scope().NewFromLocal(shape, strategy.results, pair);
}

namespace {

// slice(get-tuple-element(sort(..), index)) of the first `count` elements along the sorted dim.
struct SortedPrefix {
  const Instruction* sort = nullptr;
  int64_t index = 0;
  int64_t dim = 0;
  int64_t count = 0;
};

std::optional<SortedPrefix> PrefixOfSort(const Instruction& slice) {
  const Instruction* sorted = slice.operand(0);
  SortedPrefix prefix;
  if (sorted->opcode() == Opcode::kGetTupleElement) {
    prefix.index = sorted->attributes<GetTupleElementAttributes>().index;
    sorted = sorted->operand(0);
  }
  if (sorted->opcode() != Opcode::kSort) return std::nullopt;
  prefix.sort = sorted;
  prefix.dim = sorted->attributes<SortAttributes>().dimension;
  const auto& attributes = slice.attributes<SliceAttributes>();
  const Shape* from = slice.operand(0)->shape();
  for (int64_t d = 0; d < from->rank(); ++d) {
    if (attributes.starts[At(d)] != 0 || attributes.strides[At(d)] != 1) return std::nullopt;
    if (d != prefix.dim && attributes.limits[At(d)] != from->dim(d)) return std::nullopt;
  }
  prefix.count = attributes.limits[At(prefix.dim)];
  return prefix;
}

// The first `count` of each tile, then the first of those: one sort of few candidates instead of
// one of everything. Candidates stand in order of their tiles, so that stable sorts stay stable.
class PrefixOfSortRule {
 public:
  PrefixOfSortRule(PartitionContext& rule, const SortedPrefix& prefix)
      : rule_(rule), prefix_(prefix), sort_(*prefix.sort), dim_(prefix.dim) {
    for (const Instruction* operand : sort_.operands()) {
      operands_.push_back(rule.scope().run().value_of[operand->id()]);
    }
    size_ = operands_[0]->shape->dim(dim_);
  }

  // Null: the slice is better made of the whole sort.
  PartitionedValue* Run() {
    int64_t tiles = MostTiles(*operands_[0], dim_);
    if (tiles == 1 || size_ == 0) return nullptr;
    const MeshLayout* layout = nullptr;
    for (const PartitionedValue::Variant& variant : operands_[0]->variants) {
      if (variant.layout->kind == MeshLayout::Kind::kTiled && variant.layout->unreduced.empty() &&
          variant.layout->Count(dim_) == tiles) {
        layout = variant.layout;
      }
    }
    if (layout == nullptr || !SavesAll(layout)) return nullptr;
    const int64_t whole[] = {dim_};
    const MeshLayout* result = rule_.layouts().WithDimsWhole(layout, whole);
    return rule_.Finish(First(layout), nullptr, result);
  }

 private:
  // Nobody needs the sort for anything else?
  bool SavesAll(const MeshLayout* layout) {
    const Computation& source = *sort_.parent();
    const Users& users = rule_.scope().run().UsersIn(source);
    auto are_prefixes = [&](const Instruction* sorted) {
      return sorted != source.root() &&
             std::ranges::all_of(users.of(sorted), [&](const Instruction* user) {
               if (user->opcode() != Opcode::kSlice) return false;
               std::optional<SortedPrefix> prefix = PrefixOfSort(*user);
               return prefix.has_value() && Saves(prefix->count, layout);
             });
    };
    if (!sort_.shape()->IsTuple()) return are_prefixes(&sort_);
    return &sort_ != source.root() && std::ranges::all_of(users.of(&sort_), [&](auto* element) {
      return element->opcode() == Opcode::kGetTupleElement && are_prefixes(element);
    });
  }

  // Does gathering `count` candidates of each tile receive less than sorting everything would:
  // gathered, in place, or with the tiles moved to another dim?
  bool Saves(int64_t count, const MeshLayout* layout) const {
    int64_t tiles = layout->Count(dim_), tile = CeilOfRatio(size_, tiles);
    if (count >= tile) return false;
    int64_t whole = std::min(PlanDistributedSort(size_, tiles).elements, tile * (tiles - 1));
    std::vector<int64_t> local = LocalDims(operands_[0]->shape, layout);
    for (int64_t d = 0; d < static_cast<int64_t>(local.size()); ++d) {
      if (d == dim_ || local[At(d)] < tiles) continue;
      whole = std::min(whole, CeilOfRatio((tile + count) * (tiles - 1), tiles));
    }
    return count * (tiles - 1) < whole;
  }

  // The candidates of all slices of this sort are sorted once.
  Instruction* First(const MeshLayout* layout) {
    std::vector<int64_t> key = {reinterpret_cast<int64_t>(&sort_), prefix_.count, prefix_.index,
                                reinterpret_cast<int64_t>(layout)};
    Instruction*& sorted = rule_.scope().Exchanged(key);
    if (sorted == nullptr) {
      std::vector<Instruction*> best = SortTogether(
          rule_.builder(), Candidates(layout), sort_.attributes<SortAttributes>(), sort_.called(0));
      for (size_t i = 0; i < best.size(); ++i) {
        key[2] = static_cast<int64_t>(i);
        rule_.scope().Exchanged(key) = best[i];
      }
    }
    return rule_.builder().SliceDim(sorted, dim_, 0, prefix_.count);
  }

  // The first of every tile, tile after tile; what short tiles lack is left out.
  std::vector<Instruction*> Candidates(const MeshLayout* layout) {
    PartitionScope& scope = rule_.scope();
    std::vector<Instruction*> locals;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Instruction* operand = sort_.operand(static_cast<int64_t>(i));
      locals.push_back(
          scope.Reshard(operands_[i], layout, {.user = &rule_.source(), .value = operand}));
    }
    int64_t tiles = layout->Count(dim_), tile = CeilOfRatio(size_, tiles);
    SortOrder order(sort_, TieOrder::kByPlace, size_ % tiles != 0);
    locals = order.Prepare(scope, locals, operands_[0]->shape, layout, tile);
    locals = SortTogether(rule_.builder(), locals, sort_.attributes<SortAttributes>(),
                          order.Comparator(scope));
    locals.resize(operands_.size());
    int64_t last = CeilOfRatio(size_, tile) - 1;  // tile with elements
    int64_t count = last * prefix_.count + std::min(prefix_.count, size_ - last * tile);
    for (Instruction*& local : locals) {
      local = rule_.builder().SliceDim(local, dim_, 0, prefix_.count);
      local = scope.AllGather(local, dim_, layout, layout->axes(dim_), rule_.Cause());
      local = rule_.builder().SliceDim(local, dim_, 0, count);
    }
    return locals;
  }

  PartitionContext& rule_;
  const SortedPrefix& prefix_;
  const Instruction& sort_;
  int64_t dim_;
  int64_t size_ = 0;
  std::vector<PartitionedValue*> operands_;
};

}  // namespace

PartitionedValue* FirstOfSort(PartitionContext& rule) {
  std::optional<SortedPrefix> prefix = PrefixOfSort(rule.source());
  return prefix ? PrefixOfSortRule(rule, *prefix).Run() : nullptr;
}

}  // namespace gshard::partition_rules
