// Slice, pad, reverse: each shard of the result reads a range of the operand's cut
// dims, which a halo exchange brings to it (GSPMD paper, section 4.3), or a reversed value is left
// in tiles of the opposite order.
#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/dim_range.h"
#include "core/partition/scope/halo.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// One operand (and perhaps a scalar), one result of the same rank. Untouched dims correspond; each
// shard of the result reads `range` along a touched one.
struct RangedOp {
  std::vector<PartitionedValue*> operands;
  std::vector<uint8_t> touched;
  // Range of the shards along a dim if they are so many.
  std::function<DimRange(int64_t dim, int64_t shards)> range;
  bool may_be_partial = false;
  bool may_be_cut = true;  // the operand, along touched dims
};

// Elements of all slices of the source's operand, in multiples of the source's.
double ShareOfSlices(PartitionContext& rule) {
  double elements = 0;
  const Instruction& source = rule.source();
  for (const Instruction* user :
       rule.scope().run().UsersIn(*source.parent()).of(source.operand(0))) {
    if (user->opcode() != Opcode::kSlice) continue;
    elements += static_cast<double>(user->shape()->element_count());
  }
  return elements / static_cast<double>(std::max<int64_t>(1, source.shape()->element_count()));
}

CutChoice ChooseRanged(PartitionContext& rule, const RangedOp& op) {
  int64_t rank = rule.source().shape()->rank();
  const PartitionedValue& operand = *op.operands[0];
  std::vector<std::vector<RangeCut>> alternatives(At(rank));
  std::vector<double> halo(At(rank), 0);
  // At least half of the tiles would be empty, as in a slice of width 1: whoever uses the value
  // will hardly want it on so few devices.
  std::vector<int64_t> overcut;
  bool has_users = !rule.scope().run().demand.IsOnlyOutput(rule.source());
  for (int64_t d = 0; has_users && d < rank; ++d) {
    bool is_overcut = rule.wanted()->Count(d) >= 2 * rule.source().shape()->dim(d);
    if (op.touched[At(d)] != 0 && is_overcut) overcut.push_back(d);
  }
  const MeshLayout* wanted = rule.wanted();
  if (!overcut.empty()) wanted = rule.layouts().WithDimsWhole(wanted, overcut);
  for (int64_t d = 0; d < rank; ++d) {
    std::vector<RangeCut>& list = alternatives[At(d)];
    if (op.touched[At(d)] == 0) {
      list = {RangeCut::kHalo};
      continue;
    }
    bool is_wanted_cut = wanted->IsSharded(d);
    bool is_cut = IsEverCut(operand, d);
    if (is_wanted_cut || is_cut) {
      int64_t tiles = is_wanted_cut ? wanted->Count(d) : MostTiles(operand, d);
      halo[At(d)] = HaloCost(rule.scope(), operand, d, op.range(d, tiles), tiles);
    }
    if (is_wanted_cut) list.push_back(RangeCut::kResult);
    if (op.may_be_cut && (is_wanted_cut || is_cut)) list.push_back(RangeCut::kHalo);
    if (op.may_be_cut && is_cut && op.may_be_partial) list.push_back(RangeCut::kPartial);
    list.push_back(RangeCut::kWhole);
  }
  auto labels_of = [&](std::span<const RangeCut> cuts) {
    Labels labels;
    std::vector<int> from, to;
    for (int64_t d = 0; d < rank; ++d) {
      int in = Labels::kWhole, out = Labels::kWhole;
      switch (cuts[At(d)]) {
        case RangeCut::kWhole:
          break;
        case RangeCut::kHalo:
          in = out = labels.Add({.bytes_if_cut = halo[At(d)]});
          break;
        case RangeCut::kResult:
          out = labels.Add();
          break;
        case RangeCut::kPartial:
          in = labels.Add({.summed = true});
          break;
      }
      from.push_back(in);
      to.push_back(out);
    }
    labels.operands = {from};
    labels.operands.resize(op.operands.size());  // scalars
    labels.results = {to};
    labels.combiner = DisjointCombiner(operand.shape->dtype());
    labels.flops = static_cast<double>(rule.source().shape()->element_count());
    return labels;
  };
  return ChooseCuts(rule, op.operands, std::move(alternatives), {&wanted, 1}, labels_of);
}

// The part of [start, start + width) along `dim` that lies in the own tile, at its place in an
// array of `width` elements; the rest holds the identity of the reduction.
Instruction* OwnPart(PartitionContext& rule, Instruction* local, int64_t dim,
                     const MeshLayout* layout, int64_t start, int64_t width) {
  PartitionScope& scope = rule.scope();
  int64_t tile = local->shape()->dim(dim);
  Instruction* delta = rule.geometry().Affine(layout->axes(dim), layout->order, -tile, start);
  Instruction* nothing = ReductionIdentity(scope, local->shape()->dtype());
  OwnWindow own = FindOwnWindow(scope, delta, width, tile);
  local = SliceRange(scope, local, dim, {own.from, 0, 0, tile - own.width}, own.width, nullptr);
  if (width == 1) {
    Builder& builder = rule.builder();
    std::span<const int64_t> dims = local->shape()->dims();
    return builder.Select(builder.BroadcastScalar(own.is_in, dims), local,
                          builder.BroadcastScalar(nothing, dims));
  }
  return SliceRange(scope, local, dim, {own.shift, 0, -width, own.width}, width, nothing);
}

// A pad of some value: of the source itself, or of what is padded and then sliced.
struct Padding {
  PartitionedValue* value = nullptr;
  const Instruction* value_source = nullptr;
  PartitionedValue* fill = nullptr;
  const Instruction* fill_source = nullptr;
  std::vector<PadDim> dims;
};

RangedOp RangedPad(PartitionContext& rule, const Padding& padding) {
  RangedOp op;
  op.operands = {padding.value, padding.fill};
  for (const PadDim& pad : padding.dims) {
    op.touched.push_back(pad.low != 0 || pad.high != 0 || pad.interior != 0);
  }
  op.range = [&rule, &padding](int64_t d, int64_t shards) {
    const PadDim& pad = padding.dims[At(d)];
    int64_t size = rule.source().shape()->dim(d);
    int64_t count = CeilOfRatio(size, shards);
    return DimRange{.size = padding.value->shape->dim(d),
                    .dilation = pad.interior + 1,
                    .scale = count,
                    .bias = -pad.low,
                    .length = count,
                    .end = size - pad.low};
  };
  return op;
}

PartitionedValue* EmitPad(PartitionContext& rule, const Padding& padding, const RangedOp& op,
                          const Strategy& strategy) {
  PartitionScope& scope = rule.scope();
  const MeshLayout* layout = strategy.operands[0];
  const MeshLayout* result = strategy.results[0];
  const Instruction* user = &rule.source();
  Instruction* operand =
      scope.Reshard(padding.value, layout, {.user = user, .value = padding.value_source});
  Instruction* fill =
      scope.Reshard(padding.fill, rule.Whole(0), {.user = user, .value = padding.fill_source});
  Instruction* local = operand;
  std::vector<PadDim> rest = padding.dims;
  for (int64_t d = 0; d < result->rank(); ++d) {
    if (op.touched[At(d)] == 0 || !result->IsSharded(d)) continue;
    rest[At(d)] = {};
    local = FetchPositions(scope, local, {d, result, result->axes(d)}, layout->IsSharded(d),
                           op.range(d, result->Count(d)), fill, rule.Cause());
  }
  return rule.Finish(rule.builder().Pad(local, fill, rest), operand, result);
}

// A slice of a pad is a pad by other, perhaps negative, amounts: one exchange instead of two.
std::optional<Padding> SlicedPad(PartitionContext& rule, const SliceAttributes& slice) {
  const Instruction* source = rule.source().operand(0);
  if (source->opcode() != Opcode::kPad) return std::nullopt;
  auto dims = source->attributes<PadAttributes>().padding;
  Padding padding;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice.strides[d] != 1 || dims[d].interior != 0) return std::nullopt;
    int64_t size = source->shape()->dim(static_cast<int64_t>(d));
    padding.dims.push_back(
        {dims[d].low - slice.starts[d], dims[d].high - (size - slice.limits[d]), 0});
  }
  const std::vector<PartitionedValue*>& values = rule.scope().run().value_of;
  padding.value_source = source->operand(0);
  padding.fill_source = source->operand(1);
  padding.value = values[padding.value_source->id()];
  padding.fill = values[padding.fill_source->id()];
  return padding;
}

// Do slices take from tiles what the program says is whole? One gather serves them all.
bool IsMeantWhole(PartitionContext& rule, std::span<const uint8_t> touched,
                  const CutChoice& choice) {
  const Sharding* own = rule.source().operand(0)->sharding();
  if (own == nullptr || !(own->IsReplicated() || own->IsTiled())) return false;
  for (size_t d = 0; d < choice.cuts.size(); ++d) {
    const bool is_whole = own->IsReplicated() || own->TileCount(static_cast<int64_t>(d)) == 1;
    const bool takes_tiles =
        choice.cuts[d] == RangeCut::kPartial || choice.cuts[d] == RangeCut::kHalo;
    if (takes_tiles && touched[d] != 0 && is_whole) return true;
  }
  return false;
}

}  // namespace

RuleResult SliceAt(PartitionContext& rule, const SliceAttributes& slice) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  RangedOp op;
  op.operands = {rule.operand(0)};
  op.may_be_partial = CanMerge(from->dtype());
  for (int64_t d = 0; d < from->rank(); ++d) op.touched.push_back(from->dim(d) != to->dim(d));
  op.range = [&](int64_t d, int64_t shards) {
    int64_t stride = slice.strides[At(d)], start = slice.starts[At(d)];
    int64_t count = CeilOfRatio(to->dim(d), shards);
    DimRange range{.size = from->dim(d), .scale = stride * count, .bias = start};
    range.length = stride * std::max<int64_t>(0, count - 1) + 1;
    range.first = start;
    range.end = start + stride * (to->dim(d) - 1) + 1;
    return range;
  };
  if (to->element_count() == 0) return rule.Default();
  CutChoice choice = ChooseRanged(rule, op);
  if (IsMeantWhole(rule, op.touched, choice)) {
    RangedOp whole = op;
    whole.may_be_cut = false;
    CutChoice gathered = ChooseRanged(rule, whole);
    const double once = rule.scope().ReshardCost(*rule.operand(0), gathered.strategy.operands[0]);
    const double slices = ShareOfSlices(rule);
    const double cost = once + slices * (gathered.strategy.cost - once);
    if (cost < slices * choice.strategy.cost) choice = std::move(gathered);
  }
  if (std::optional<Padding> padding = SlicedPad(rule, slice);
      padding && choice.strategy.cost > 0) {
    RangedOp pad = RangedPad(rule, *padding);
    CutChoice direct = ChooseRanged(rule, pad);
    if (direct.strategy.cost <= choice.strategy.cost) {
      return EmitPad(rule, *padding, pad, direct.strategy);
    }
  }
  const MeshLayout* layout = choice.strategy.operands[0];
  const MeshLayout* result = choice.strategy.results[0];
  Instruction* operand = rule.Operand(0, layout);
  Instruction* local = operand;

  // First what shrinks the value without communication.
  std::span<const int64_t> dims = local->shape()->dims();
  std::vector<int64_t> starts(dims.size(), 0), limits(dims.begin(), dims.end());
  std::vector<int64_t> strides(dims.size(), 1);
  for (int64_t d = 0; d < from->rank(); ++d) {
    if (op.touched[At(d)] == 0 || layout->IsSharded(d) || result->IsSharded(d)) continue;
    starts[At(d)] = slice.starts[At(d)];
    limits[At(d)] = slice.limits[At(d)];
    strides[At(d)] = slice.strides[At(d)];
  }
  local = rule.builder().Slice(local, starts, limits, strides);
  for (int64_t d = 0; d < from->rank(); ++d) {
    if (op.touched[At(d)] == 0 || (!layout->IsSharded(d) && !result->IsSharded(d))) continue;
    DimRange range = op.range(d, result->Count(d));
    if (result->IsSharded(d)) {
      local = FetchPositions(rule.scope(), local, {d, result, result->axes(d)},
                             layout->IsSharded(d), range, nullptr, rule.Cause());
    } else {
      local = OwnPart(rule, local, d, layout, slice.starts[At(d)], range.length);
    }
    if (slice.strides[At(d)] == 1) continue;
    std::vector<int64_t> zeros(dims.size(), 0), ones(dims.size(), 1);
    std::vector<int64_t> ends(local->shape()->dims().begin(), local->shape()->dims().end());
    ones[At(d)] = slice.strides[At(d)];
    local = rule.builder().Slice(local, zeros, ends, ones);
  }
  return rule.Finish(local, operand, result);
}

RuleResult Slice(PartitionContext& rule) {
  if (PartitionedValue* first = FirstOfSort(rule)) return first;
  return SliceAt(rule, rule.attributes<SliceAttributes>());
}

RuleResult Pad(PartitionContext& rule) {
  if (rule.source().shape()->element_count() == 0) return rule.Default();
  auto dims = rule.attributes<PadAttributes>().padding;
  Padding padding{rule.operand(0),
                  rule.source().operand(0),
                  rule.operand(1),
                  rule.source().operand(1),
                  {dims.begin(), dims.end()}};
  RangedOp op = RangedPad(rule, padding);
  return EmitPad(rule, padding, op, ChooseRanged(rule, op).strategy);
}

namespace {

// How far the elements of a reversed tile lie behind their places, if every device reverses its
// own: uneven tiles end in padding, which then comes first.
int64_t PaddingOf(const Shape* shape, const MeshLayout* layout, int64_t dim) {
  int64_t count = layout->Count(dim);
  return CeilOfRatio(shape->dim(dim), count) * count - shape->dim(dim);
}

HaloRequest PastPadding(const Shape* shape, const MeshLayout* layout, int64_t dim) {
  int64_t count = layout->Count(dim);
  int64_t tile = CeilOfRatio(shape->dim(dim), count);
  int64_t padding = PaddingOf(shape, layout, dim);
  return {.shards = count,
          .tile = tile,
          .size = count * tile,
          .begin = padding,
          .scale = tile,
          .bias = padding,
          .width = tile};
}

// Every device reverses its own tile: the tiles of the result lie in the opposite order. Where the
// operand is to be for that; null: nothing costs less than `bound`.
const MeshLayout* WhereToReverse(PartitionContext& rule, std::span<const int64_t> dims,
                                 double bound) {
  PartitionScope& scope = rule.scope();
  const PartitionOptions& options = scope.run().options;
  const Shape* shape = rule.source().shape();
  auto can_be_mirrored = [](const MeshLayout* layout) {
    return layout->kind == MeshLayout::Kind::kTiled && layout->manual.empty() &&
           layout->unreduced.empty();
  };
  if (!can_be_mirrored(rule.wanted())) return nullptr;
  std::vector<const MeshLayout*> candidates;
  scope.CollectLayouts(*rule.operand(0), candidates);
  candidates.push_back(rule.layouts().Mirrored(rule.wanted(), dims));
  const MeshLayout* best = nullptr;
  for (const MeshLayout* layout : candidates) {
    if (!can_be_mirrored(layout)) continue;
    const MeshLayout* result = rule.layouts().Mirrored(layout, dims);
    if (result == layout) continue;  // nothing is reversed across tiles
    const Shape* tile = LocalShape(rule.context(), shape, layout);
    double cost = static_cast<double>(tile->element_count()) *
                      (options.bytes_per_repeated_flop + options.bytes_per_flop) +
                  scope.ReshardCost(*rule.operand(0), layout) +
                  scope.run().planner.Plan(shape, result, rule.wanted()).cost;
    for (int64_t d : dims) {
      if (cost >= bound) break;
      if (!layout->IsSharded(d) || PaddingOf(shape, layout, d) == 0) continue;
      HaloPlan plan = PlanHalo(PastPadding(shape, layout, d));
      cost += static_cast<double>(tile->byte_size() / tile->dim(d) * plan.elements_received);
    }
    if (cost >= bound) continue;
    bound = cost;
    best = layout;
  }
  return best;
}

PartitionedValue* ReverseOwnTiles(PartitionContext& rule, const MeshLayout* layout,
                                  std::span<const int64_t> dims) {
  const Shape* shape = rule.source().shape();
  const MeshLayout* result = rule.layouts().Mirrored(layout, dims);
  Instruction* locals[] = {rule.Operand(0, layout)};
  Instruction* local = rule.EmitLocal(locals, LocalShape(rule.context(), shape, layout));
  for (int64_t d : dims) {
    if (!layout->IsSharded(d) || PaddingOf(shape, layout, d) == 0) continue;
    local = ExchangeHalo(rule.scope(), local, {d, result, result->axes(d)},
                         PastPadding(shape, layout, d), rule.Cause());
  }
  return rule.Result(local, result);
}

}  // namespace

RuleResult Reverse(PartitionContext& rule) {
  Dims dims = rule.attributes<DimensionsAttributes>().dimensions;
  const Shape* shape = rule.source().shape();
  RangedOp op;
  op.operands = {rule.operand(0)};
  op.touched.resize(At(shape->rank()), 0);
  for (int64_t d : dims) op.touched[At(d)] = shape->dim(d) > 1;
  op.range = [&](int64_t d, int64_t shards) {
    int64_t tile = CeilOfRatio(shape->dim(d), shards);
    return DimRange{
        .size = shape->dim(d), .scale = -tile, .bias = shape->dim(d) - tile, .length = tile};
  };
  if (shape->element_count() == 0) return rule.Default();
  CutChoice choice = ChooseRanged(rule, op);
  std::vector<int64_t> reversed;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (op.touched[At(d)] != 0) reversed.push_back(d);
  }
  if (const MeshLayout* place = WhereToReverse(rule, reversed, choice.strategy.cost)) {
    return ReverseOwnTiles(rule, place, reversed);
  }
  const MeshLayout* layout = choice.strategy.operands[0];
  const MeshLayout* result = choice.strategy.results[0];
  Instruction* local = rule.Operand(0, layout);
  for (int64_t d : reversed) {
    if (!result->IsSharded(d)) continue;
    local = FetchPositions(rule.scope(), local, {d, result, result->axes(d)}, layout->IsSharded(d),
                           op.range(d, result->Count(d)), nullptr, rule.Cause());
  }
  Instruction* locals[] = {local};
  return rule.Emit(locals, choice.strategy.results);
}

}  // namespace gshard::partition_rules
