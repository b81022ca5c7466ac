// Windowed reductions and their gradients: halos of the input, filled with what leaves the
// reduction as it is. Cumulative reductions scan their tile and start from the totals of the tiles
// before.
#include <algorithm>
#include <optional>

#include "core/partition/dim_range.h"
#include "core/partition/ops/rules.h"
#include "core/partition/range_cut.h"

namespace gshard::partition_rules {

namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

bool IsTrivial(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
}

// Every window holds all elements up to its own (from its own on, if reversed)?
bool IsCumulative(const WindowDim& w, int64_t size) {
  bool is_plain = w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && w.size >= size;
  return is_plain && ((w.pad_low == w.size - 1 && w.pad_high == 0) ||
                      (w.pad_high == w.size - 1 && w.pad_low == 0));
}

DimRange RangeOf(const WindowDim& w, int64_t input_size, int64_t output_size, int64_t shards) {
  int64_t count = CeilOfRatio(output_size, shards);
  int64_t dilated = (w.size - 1) * w.window_dilation + 1;
  return {.size = input_size,
          .dilation = w.base_dilation,
          .scale = w.stride * count,
          .bias = -w.pad_low,
          .length = w.stride * (count - 1) + dilated,
          .end = w.stride * (output_size - 1) + dilated - w.pad_low};
}

std::vector<WindowDim> WindowOf(PartitionContext& rule) {
  auto window = rule.attributes<WindowAttributes>().window;
  std::vector<WindowDim> dims(window.begin(), window.end());
  dims.resize(At(rule.operand_shape(0)->rank()));
  return dims;
}

// inputs, then their inits (whole).
struct Inputs {
  int64_t count = 0;
  std::vector<Instruction*> locals, inits, fills;
};

// A tuple or a single instruction as the rule's result.
PartitionedValue* ResultOf(PartitionContext& rule, std::span<Instruction* const> locals,
                           std::span<const MeshLayout* const> layouts) {
  if (!rule.source().shape()->IsTuple()) {
    rule.TakeName(locals[0]);
    return rule.Result(locals[0], layouts[0]);
  }
  Instruction* tuple = rule.builder().Tuple(locals);
  rule.TakeName(tuple);
  return rule.scope().NewFromLocal(rule.source().shape(), layouts, tuple);
}

// Cumulative along `dim`, which `layout` cuts.
std::vector<Instruction*> Cumulate(PartitionContext& rule, const Inputs& inputs, int64_t dim,
                                   const MeshLayout* layout, bool is_reverse) {
  Builder& builder = rule.builder();
  PartitionScope& scope = rule.scope();
  const Instruction& source = rule.source();
  Computation* const called[] = {source.called(0)};
  const AxisList& axes = layout->axes(dim);
  int64_t shards = AxesSize(axes);
  auto elements_of = [&](Instruction* op) {
    std::vector<Instruction*> elements;
    for (int64_t i = 0; i < inputs.count; ++i) {
      elements.push_back(op->shape()->IsTuple() ? builder.GetTupleElement(op, i) : op);
    }
    return elements;
  };
  auto reduce = [&](std::vector<Instruction*> operands) {
    operands.insert(operands.end(), inputs.inits.begin(), inputs.inits.end());
    const int64_t dims[] = {dim};
    return elements_of(builder.Add(Opcode::kReduce, operands,
                                   DimensionsAttributes{builder.Copy(dims)}, nullptr, called));
  };
  // The total of every tile, to everybody; those before the own one (after it) count.
  std::vector<Instruction*> all;
  std::vector<Instruction*> totals = reduce(inputs.locals);
  Instruction* ordinal = rule.geometry().Ordinal(axes, layout->order);
  for (int64_t i = 0; i < inputs.count; ++i) {
    std::vector<int64_t> dims(inputs.locals[At(i)]->shape()->dims().begin(),
                              inputs.locals[At(i)]->shape()->dims().end());
    dims[At(dim)] = 1;
    Instruction* total = builder.Reshape(totals[At(i)], dims);
    Instruction* gathered = scope.AllGather(total, dim, layout, axes, rule.Cause());
    dims[At(dim)] = shards;
    Instruction* tile = rule.geometry().Positions(dims, dim, rule.geometry().Int(0));
    Instruction* counts =
        builder.Compare(is_reverse ? ComparisonDirection::kGt : ComparisonDirection::kLt, tile,
                        builder.BroadcastScalar(ordinal, dims));
    all.push_back(
        builder.Select(counts, gathered, builder.BroadcastScalar(inputs.inits[At(i)], dims)));
  }
  std::vector<Instruction*> carried = reduce(std::move(all));
  // The carried value goes in front (behind) as one more element, and is cut off again.
  int64_t tile = inputs.locals[0]->shape()->dim(dim);
  std::vector<Instruction*> extended;
  for (int64_t i = 0; i < inputs.count; ++i) {
    Instruction* local = inputs.locals[At(i)];
    std::vector<int64_t> dims(local->shape()->dims().begin(), local->shape()->dims().end());
    dims[At(dim)] = 1;
    Instruction* parts[] = {builder.Reshape(carried[At(i)], dims), local};
    if (is_reverse) std::swap(parts[0], parts[1]);
    extended.push_back(builder.Concatenate(parts, dim));
  }
  extended.insert(extended.end(), inputs.inits.begin(), inputs.inits.end());
  std::vector<WindowDim> window(At(inputs.locals[0]->shape()->rank()));
  window[At(dim)].size = tile + 1;
  (is_reverse ? window[At(dim)].pad_high : window[At(dim)].pad_low) = tile;
  WindowAttributes attributes{scope.run().module.arena().Copy(window)};
  std::vector<Instruction*> results =
      elements_of(builder.Add(Opcode::kReduceWindow, extended, attributes, nullptr, called));
  for (Instruction*& result : results) {
    int64_t first = is_reverse ? 0 : 1;
    result = builder.SliceDim(result, dim, first, first + tile);
  }
  return results;
}

}  // namespace

RuleResult ReduceWindow(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<WindowDim> window = WindowOf(rule);
  const Shape* input = rule.operand_shape(0);
  const Shape* output = source.shape()->IsTuple() ? source.shape()->element(0) : source.shape();
  int64_t rank = input->rank();
  if (output->element_count() == 0 || input->element_count() == 0) return rule.Default();
  Inputs inputs;
  inputs.count = static_cast<int64_t>(rule.operands().size()) / 2;

  int64_t moving = 0;
  for (const WindowDim& w : window) moving += IsTrivial(w) ? 0 : 1;
  auto scans = [&](int64_t d) { return moving == 1 && IsCumulative(window[At(d)], input->dim(d)); };
  std::vector<std::vector<RangeCut>> alternatives(At(rank));
  std::vector<double> halo(At(rank), 0);
  for (int64_t d = 0; d < rank; ++d) {
    std::vector<RangeCut>& list = alternatives[At(d)];
    bool is_wanted_cut = rule.wanted()->IsSharded(d);
    bool is_cut = IsEverCut(*rule.operand(0), d);
    if (IsTrivial(window[At(d)]) || is_wanted_cut || is_cut) list.push_back(RangeCut::kHalo);
    if ((is_wanted_cut || is_cut) && !IsTrivial(window[At(d)]) && !scans(d)) {
      int64_t shards = is_wanted_cut ? rule.wanted()->Count(d) : MostTiles(*rule.operand(0), d);
      DimRange range = RangeOf(window[At(d)], input->dim(d), output->dim(d), shards);
      halo[At(d)] = static_cast<double>(inputs.count) *
                    HaloCost(rule.scope(), *rule.operand(0), d, range, shards);
    }
    if (!IsTrivial(window[At(d)])) {
      if (is_wanted_cut && !is_cut) list.push_back(RangeCut::kResult);
      list.push_back(RangeCut::kWhole);
    }
  }
  auto labels_of = [&](std::span<const RangeCut> cuts) {
    Labels labels;
    std::vector<int> in, out;
    double taps = 1;
    for (int64_t d = 0; d < rank; ++d) {
      taps *= static_cast<double>(std::min(window[At(d)].size, input->dim(d)));
      in.push_back(Labels::kWhole);
      out.push_back(Labels::kWhole);
      if (cuts[At(d)] == RangeCut::kHalo) {
        in.back() = out.back() = labels.Add({.bytes_if_cut = halo[At(d)]});
      } else if (cuts[At(d)] == RangeCut::kResult) {
        out.back() = labels.Add();
      }
    }
    labels.operands.assign(At(inputs.count), in);
    labels.operands.resize(rule.operands().size());
    labels.results.assign(At(inputs.count), out);
    labels.flops = taps * static_cast<double>(output->element_count());
    return labels;
  };
  CutChoice choice =
      ChooseCuts(rule, rule.operands(), std::move(alternatives), rule.wanted_leaves(), labels_of);
  const MeshLayout* layout = choice.strategy.operands[0];
  const MeshLayout* result = choice.strategy.results[0];

  // Positions without data are skipped by the operation: they hold the combiner's identity, which
  // the init need not be.
  std::optional<Opcode> combiner = CombinerOf(source.called(0));
  for (int64_t i = 0; i < inputs.count; ++i) {
    inputs.locals.push_back(rule.Operand(i, choice.strategy.operands[At(i)]));
    inputs.inits.push_back(rule.Operand(inputs.count + i, rule.Whole(0)));
    inputs.fills.push_back(inputs.inits.back());
    if (combiner.has_value() && !IsIdentity(*combiner, source.operand(inputs.count + i))) {
      inputs.fills.back() =
          Identity(rule.scope(), *combiner, inputs.inits.back()->shape()->dtype());
    }
  }
  for (int64_t d = 0; d < rank; ++d) {
    WindowDim& w = window[At(d)];
    if (IsTrivial(w) || !result->IsSharded(d)) continue;
    bool keeps_init = inputs.fills == inputs.inits;
    if (scans(d) && layout->IsSharded(d) && keeps_init) {
      bool is_reverse = w.pad_low == 0 && w.pad_high > 0;
      if (is_reverse) {
        const int64_t dims[] = {d};
        for (int64_t i = 0; i < inputs.count; ++i) {
          inputs.locals[At(i)] = MaskPadding(rule.scope(), inputs.locals[At(i)], input, layout,
                                             dims, inputs.inits[At(i)]);
        }
      }
      return ResultOf(rule, Cumulate(rule, inputs, d, layout, is_reverse), choice.strategy.results);
    }
    DimRange range = RangeOf(w, input->dim(d), output->dim(d), result->Count(d));
    FetchedRange fetched;
    for (int64_t i = 0; i < inputs.count; ++i) {
      const ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(i)};
      fetched = FetchRange(rule.scope(), inputs.locals[At(i)], d, layout->IsSharded(d), result,
                           result->axes(d), range, inputs.fills[At(i)], cause);
      inputs.locals[At(i)] = fetched.local;
    }
    w.pad_low = fetched.pad_low;
    w.pad_high = fetched.pad_high;
    w.base_dilation = fetched.dilation;
  }
  std::vector<Instruction*> operands = inputs.locals;
  operands.insert(operands.end(), inputs.inits.begin(), inputs.inits.end());
  WindowAttributes attributes{rule.scope().run().module.arena().Copy(window)};
  Computation* const called[] = {source.called(0)};
  Instruction* local =
      rule.builder().Add(Opcode::kReduceWindow, operands, attributes, nullptr, called);
  rule.TakeName(local);
  return rule.scope().NewFromLocal(source.shape(), choice.strategy.results, local);
}

// --- select-and-scatter

namespace {

// The value that loses every comparison of a selecting computation, if it is a plain one.
std::optional<Opcode> LosingFor(const Computation* select) {
  const Instruction* root = select->root();
  if (root == nullptr || root->opcode() != Opcode::kCompare || select->parameter_count() != 2 ||
      root->operand(0) != select->parameter(0) || root->operand(1) != select->parameter(1)) {
    return std::nullopt;
  }
  switch (root->attributes<CompareAttributes>().direction) {
    case ComparisonDirection::kGe:
    case ComparisonDirection::kGt:
      return Opcode::kMaximum;
    case ComparisonDirection::kLe:
    case ComparisonDirection::kLt:
      return Opcode::kMinimum;
    default:
      return std::nullopt;
  }
}

// One dim of a select-and-scatter on tiles: the windows that touch the own tile, and what they
// cover.
struct TouchingWindows {
  HaloRequest source;   // the windows
  DimRange operand;     // covers all of them
  int64_t covered = 0;  // positions from the first window's start to the last one's end
  // Where the first window starts, counted from the own tile's first element.
  int64_t least = 0, greatest = 0;
};

TouchingWindows TouchingOf(const WindowDim& w, int64_t size, int64_t windows, int64_t shards) {
  int64_t tile = CeilOfRatio(size, shards);
  TouchingWindows touching;
  HaloRequest& source = touching.source;
  source.shards = shards;
  source.tile = CeilOfRatio(windows, shards);
  source.size = windows;
  source.scale = tile;
  source.bias = w.pad_low - w.size + w.stride;
  source.divisor = w.stride;
  std::vector<std::pair<int64_t, int64_t>> covered;
  for (int64_t i = 0; i < shards && tile * i < size; ++i) {
    int64_t last = std::min(tile * i + tile, size) - 1;
    int64_t end = FloorOfRatio(last + w.pad_low, w.stride) + 1;
    source.width = std::max(source.width, end - source.Start(i));
    source.needs.emplace_back(source.Start(i), end);
    covered.emplace_back(w.stride * source.Start(i) - w.pad_low,
                         w.stride * (end - 1) - w.pad_low + w.size);
    int64_t start = w.stride * source.Start(i) - w.pad_low - tile * i;
    touching.least = i == 0 ? start : std::min(touching.least, start);
    touching.greatest = i == 0 ? start : std::max(touching.greatest, start);
  }
  source.needs.resize(static_cast<size_t>(shards), {0, 0});
  covered.resize(static_cast<size_t>(shards), {0, 0});
  source.width = std::max<int64_t>(source.width, 1);
  touching.covered = w.stride * (source.width - 1) + w.size;
  touching.operand = {.size = size,
                      .scale = tile,
                      .bias = touching.least,
                      .length = touching.covered + touching.greatest - touching.least,
                      .needs = std::move(covered)};
  return touching;
}

}  // namespace

RuleResult SelectAndScatter(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<WindowDim> window = WindowOf(rule);
  const Shape* shape = source.shape();
  const Shape* windows = rule.operand_shape(1);
  std::optional<Opcode> loses = LosingFor(source.called(0));
  std::optional<Opcode> combiner = CombinerOf(source.called(1));
  bool has_dilation = std::any_of(window.begin(), window.end(), [](const WindowDim& w) {
    return w.base_dilation != 1 || w.window_dilation != 1;
  });
  if (has_dilation || shape->element_count() == 0 || windows->element_count() == 0) {
    return rule.Default();
  }
  // The value that loses must lose to all data: of integers it may be among them (0 if unsigned).
  // Of floats it is an infinity, which real data is taken to beat somewhere in each window.
  bool may_cut =
      loses.has_value() && combiner.has_value() && IsFloat(rule.operand_shape(0)->dtype());
  Labels labels = Labels::Pointwise(2, shape->rank());
  labels.operands.emplace_back();
  for (int64_t d = 0; d < shape->rank(); ++d) {
    const WindowDim& w = window[At(d)];
    if (IsTrivial(w)) continue;
    int64_t shards = std::max(
        {rule.wanted()->Count(d), MostTiles(*rule.operand(0), d), MostTiles(*rule.operand(1), d)});
    if (!may_cut || shards == 1) {
      labels.operands[0][At(d)] = labels.operands[1][At(d)] = labels.results[0][At(d)] =
          Labels::kWhole;
      continue;
    }
    TouchingWindows touching = TouchingOf(w, shape->dim(d), windows->dim(d), shards);
    labels.labels[At(labels.results[0][At(d)])].bytes_if_cut =
        2 * HaloCost(rule.scope(), *rule.operand(0), d, touching.operand, shards);
  }
  const Strategy& strategy = rule.Choose(labels);
  const MeshLayout* layout = strategy.results[0];
  Instruction* operand = rule.Operand(0, strategy.operands[0]);
  Instruction* values = rule.Operand(1, strategy.operands[1]);
  Instruction* init = rule.Operand(2, rule.Whole(0));

  PartitionScope& scope = rule.scope();
  Builder& builder = rule.builder();
  ShardGeometry& geometry = rule.geometry();
  struct Cut {
    int64_t dim;
    TouchingWindows touching;
    Instruction* first;  // the first window's start, counted from the own tile's first element
  };
  std::vector<Cut> cuts;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    WindowDim& w = window[At(d)];
    const AxisList& axes = layout->axes(d);
    if (IsTrivial(w) || axes.empty()) continue;
    Cut cut{d, TouchingOf(w, shape->dim(d), windows->dim(d), AxesSize(axes)), nullptr};
    HaloRequest& request = cut.touching.source;
    Instruction* identity = Identity(scope, *combiner, values->shape()->dtype());
    Instruction* first =
        geometry.AffineFloor(axes, layout->order, request.scale, request.bias, request.divisor);
    values = ExchangeHalo(scope, values, d, layout, axes, request, rule.Cause());
    values = MaskRange(scope, values, d, first, 0, windows->dim(d), identity);

    Instruction* loser = Identity(scope, *loses, operand->shape()->dtype());
    operand = FetchPositions(scope, operand, d, /*is_cut=*/true, layout, axes, cut.touching.operand,
                             loser, rule.Cause());
    Instruction* start = builder.Binary(Opcode::kMultiply, first, geometry.Int(w.stride));
    cut.first =
        builder.Binary(Opcode::kSubtract, start,
                       geometry.Affine(axes, layout->order, cut.touching.operand.scale, w.pad_low));
    operand = SliceRange(scope, operand, d, cut.first, -cut.touching.least, 0,
                         cut.touching.greatest - cut.touching.least, cut.touching.covered, nullptr);
    w.pad_low = w.pad_high = 0;
    cuts.push_back(cut);
  }
  WindowAttributes attributes{scope.run().module.arena().Copy(window)};
  Instruction* operands[] = {operand, values, init};
  Computation* const called[] = {source.called(0), source.called(1)};
  Instruction* local =
      builder.Add(Opcode::kSelectAndScatter, operands, attributes, nullptr, called);
  for (const Cut& cut : cuts) {
    int64_t tile = CeilOfRatio(shape->dim(cut.dim), layout->Count(cut.dim));
    Instruction* start = builder.Add(Opcode::kNegate, {cut.first});
    local = SliceRange(scope, local, cut.dim, start, 0, -cut.touching.greatest, -cut.touching.least,
                       tile, init);
  }
  local->set_shape(LocalShape(rule.context(), shape, layout));
  rule.TakeName(local);
  return rule.Result(local, layout);
}

}  // namespace gshard::partition_rules
