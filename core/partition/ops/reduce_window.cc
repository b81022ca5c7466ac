// Windowed reductions and their gradients: halos of the input, filled with what leaves the
// reduction as it is. Cumulative reductions run over their tile and start from the totals of the
// tiles before.
#include <algorithm>
#include <optional>

#include "core/analysis/combiner.h"
#include "core/partition/ops/rules.h"
#include "core/partition/scope/dim_range.h"
#include "core/partition/scope/range_cut.h"
#include "core/partition/scope/tile_prefix.h"
#include "ir/dims.h"
#include "ir/shape_inference.h"

namespace gshard::partition_rules {

namespace {

// Windows that hold all elements up to their own (from their own on, if reversed).
struct Running {
  bool is_reverse = false;
  bool is_exclusive = false;  // their own left out
};

std::optional<Running> RunningOf(const WindowDim& w, int64_t input_size, int64_t output_size) {
  bool is_plain =
      w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && input_size == output_size;
  auto ends = [](int64_t padding) { return padding == 0 || padding == -1; };
  if (is_plain && w.pad_low >= input_size - 1 && ends(w.pad_high)) {
    return Running{.is_reverse = false, .is_exclusive = w.pad_high != 0};
  }
  if (is_plain && w.pad_high >= input_size - 1 && ends(w.pad_low)) {
    return Running{.is_reverse = true, .is_exclusive = w.pad_low != 0};
  }
  return std::nullopt;
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

struct Inputs {
  int64_t count = 0;
  std::vector<Instruction*> locals;
  std::vector<Instruction*> inits;  // whole
  std::vector<Instruction*> fills;  // what leaves every value as it is
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

// Running folds along a cut dim.
class Cumulation {
 public:
  Cumulation(PartitionContext& rule, const Inputs& inputs, const TilePrefix& prefix)
      : rule_(rule), builder_(rule.builder()), inputs_(inputs), prefix_(prefix) {}

  std::vector<Instruction*> Run(bool is_exclusive) {
    FoldValues totals = Folded(inputs_.locals, inputs_.fills);
    FoldValues inits;
    double bytes = 0;
    for (size_t i = 0; i < totals.size(); ++i) {
      inits.push_back(builder_.BroadcastScalar(inputs_.inits[i], totals[i]->shape()->dims()));
      bytes += static_cast<double>(totals[i]->shape()->byte_size());
    }
    TileFold fold;
    fold.combine = [&](const FoldValues& earlier, const FoldValues& later) {
      return Folded(Joined(earlier, later), inputs_.fills);
    };
    fold.carry = [&](const FoldValues& all) { return Folded(Before(all), inputs_.inits); };
    PrefixPlan plan = PlanPrefix(rule_.scope().run().options, bytes, prefix_.tiles);
    FoldValues carry = CarryIntoTile(rule_, prefix_, plan, fold, totals, inits);
    return RunOn(prefix_.is_reverse ? Joined(inputs_.locals, carry) : Joined(carry, inputs_.locals),
                 is_exclusive);
  }

 private:
  std::vector<int64_t> DimsOf(Instruction* x, int64_t count) const {
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    dims[At(prefix_.dim)] = count;
    return dims;
  }

  std::vector<Instruction*> Apply(Opcode opcode, const auto& attributes, FoldValues operands,
                                  const FoldValues& inits) {
    Computation* const called[] = {rule_.source().called(0)};
    size_t count = operands.size();
    operands.insert(operands.end(), inits.begin(), inits.end());
    Instruction* made = builder_.Add(opcode, operands, attributes, nullptr, called);
    std::vector<Instruction*> elements;
    for (size_t i = 0; i < count; ++i) {
      elements.push_back(made->shape()->IsTuple()
                             ? builder_.GetTupleElement(made, static_cast<int64_t>(i))
                             : made);
    }
    return elements;
  }

  // Along the whole dim, which keeps one element.
  FoldValues Folded(const FoldValues& stacks, const FoldValues& inits) {
    const int64_t dims[] = {prefix_.dim};
    FoldValues folded =
        Apply(Opcode::kReduce, DimensionsAttributes{builder_.Copy(dims)}, stacks, inits);
    for (size_t i = 0; i < folded.size(); ++i) {
      folded[i] = builder_.Reshape(folded[i], DimsOf(stacks[i], 1));
    }
    return folded;
  }

  FoldValues Joined(const FoldValues& first, const FoldValues& second) {
    FoldValues joined;
    for (size_t i = 0; i < first.size(); ++i) {
      Instruction* const parts[] = {first[i], second[i]};
      joined.push_back(builder_.Concatenate(parts, prefix_.dim));
    }
    return joined;
  }

  // The totals of the tiles before the own one (after it, if reversed); nothing in the others.
  FoldValues Before(FoldValues totals) {
    Instruction* own =
        rule_.geometry().Ordinal(prefix_.layout->axes(prefix_.dim), prefix_.layout->order);
    auto direction = prefix_.is_reverse ? ComparisonDirection::kGt : ComparisonDirection::kLt;
    for (size_t i = 0; i < totals.size(); ++i) {
      std::vector<int64_t> dims = DimsOf(totals[i], prefix_.tiles);
      Instruction* tile = rule_.geometry().Positions(dims, prefix_.dim, rule_.geometry().Int(0));
      Instruction* counts = builder_.Compare(direction, tile, builder_.BroadcastScalar(own, dims));
      totals[i] =
          builder_.Select(counts, totals[i], builder_.BroadcastScalar(inputs_.fills[i], dims));
    }
    return totals;
  }

  // The tile with what comes into it as one more element, which is cut off again.
  std::vector<Instruction*> RunOn(const FoldValues& extended, bool is_exclusive) {
    int64_t tile = extended[0]->shape()->dim(prefix_.dim) - 1;
    std::vector<WindowDim> window(At(extended[0]->shape()->rank()));
    WindowDim& w = window[At(prefix_.dim)];
    w.size = tile + 1;
    (prefix_.is_reverse ? w.pad_high : w.pad_low) = tile;
    WindowAttributes attributes{rule_.scope().run().module.arena().Copy(window)};
    std::vector<Instruction*> results =
        Apply(Opcode::kReduceWindow, attributes, extended, inputs_.fills);
    int64_t first = prefix_.is_reverse == is_exclusive ? 1 : 0;
    for (Instruction*& result : results) {
      result = builder_.SliceDim(result, prefix_.dim, first, first + tile);
    }
    return results;
  }

  PartitionContext& rule_;
  Builder& builder_;
  const Inputs& inputs_;
  const TilePrefix& prefix_;
};

// A reduce-window as its rule sees it.
struct WindowProblem {
  std::vector<WindowDim> window;
  const Shape* input = nullptr;
  const Shape* output = nullptr;
  int64_t count = 0;                            // of folded arrays
  std::vector<std::optional<Running>> running;  // per dim: the window is a running fold
  std::vector<double> halo;                     // per dim: bytes received if it is cut
};

// How a dim may be cut; sets what that would cost.
std::vector<RangeCut> CutsOf(PartitionContext& rule, WindowProblem& problem, int64_t d) {
  std::vector<RangeCut> list;
  const WindowDim& w = problem.window[At(d)];
  const int64_t size = problem.input->dim(d);
  const bool is_wanted_cut = rule.wanted()->IsSharded(d);
  const bool is_cut = IsEverCut(*rule.operand(0), d);
  if (IsTrivial(w)) return {RangeCut::kHalo};
  if (is_wanted_cut || is_cut) {
    list.push_back(RangeCut::kHalo);
    const int64_t shards = is_wanted_cut ? rule.wanted()->Count(d) : MostTiles(*rule.operand(0), d);
    const auto count = static_cast<double>(problem.count);
    if (problem.running[At(d)]) {
      const double bytes = count * RowBytes(*rule.operand(0), d);
      problem.halo[At(d)] = PlanPrefix(rule.scope().run().options, bytes, shards).bytes;
    } else {
      const DimRange range = RangeOf(w, size, problem.output->dim(d), shards);
      problem.halo[At(d)] = count * HaloCost(rule.scope(), *rule.operand(0), d, range, shards);
    }
  }
  if (is_wanted_cut && !is_cut) list.push_back(RangeCut::kResult);
  list.push_back(RangeCut::kWhole);
  return list;
}

Labels LabelsOf(const PartitionContext& rule, const WindowProblem& problem,
                std::span<const RangeCut> cuts) {
  Labels labels;
  std::vector<int> in, out;
  double taps = 1;
  for (int64_t d = 0; d < problem.input->rank(); ++d) {
    taps *= static_cast<double>(std::min(problem.window[At(d)].size, problem.input->dim(d)));
    in.push_back(Labels::kWhole);
    out.push_back(Labels::kWhole);
    if (cuts[At(d)] == RangeCut::kHalo) {
      in.back() = out.back() = labels.Add({.bytes_if_cut = problem.halo[At(d)]});
    } else if (cuts[At(d)] == RangeCut::kResult) {
      out.back() = labels.Add();
    }
  }
  labels.operands.assign(At(problem.count), in);
  labels.operands.resize(rule.operands().size());
  labels.results.assign(At(problem.count), out);
  labels.flops = taps * static_cast<double>(problem.output->element_count());
  return labels;
}

// Positions without data are skipped by the operation: they hold the combiner's identity, which
// the init need not be.
Inputs InputsOf(PartitionContext& rule, int64_t count, const Strategy& strategy) {
  Inputs inputs;
  inputs.count = count;
  const std::optional<Opcode> combiner = CombinerOf(rule.source().called(0));
  for (int64_t i = 0; i < count; ++i) {
    inputs.locals.push_back(rule.Operand(i, strategy.operands[At(i)]));
    inputs.inits.push_back(rule.Operand(count + i, rule.Whole(0)));
    inputs.fills.push_back(inputs.inits.back());
    if (combiner.has_value() &&
        !IsFilledWithIdentity(rule.source().operand(count + i), *combiner)) {
      inputs.fills.back() =
          Identity(rule.scope(), *combiner, inputs.inits.back()->shape()->dtype());
    }
  }
  return inputs;
}

// A running fold along dim `d`, cut in operand and result.
RuleResult RunningFold(PartitionContext& rule, const WindowProblem& problem, Inputs inputs,
                       int64_t d, const Strategy& strategy) {
  const MeshLayout* layout = strategy.operands[0];
  const Running& run = *problem.running[At(d)];
  const TilePrefix prefix = {
      .layout = layout,
      .dim = d,
      .tiles = CeilOfRatio(problem.input->dim(d), inputs.locals[0]->shape()->dim(d)),
      .is_reverse = run.is_reverse};
  for (int64_t i = 0; prefix.is_reverse && i < inputs.count; ++i) {
    const int64_t dims[] = {d};
    inputs.locals[At(i)] = MaskPadding(rule.scope(), inputs.locals[At(i)], problem.input, layout,
                                       dims, inputs.fills[At(i)]);
  }
  return ResultOf(rule, Cumulation(rule, inputs, prefix).Run(run.is_exclusive), strategy.results);
}

// Fetches what the windows of the own tile read along dim `d`, and makes the window fit it.
void FetchDim(PartitionContext& rule, WindowProblem& problem, Inputs& inputs, int64_t d,
              const Strategy& strategy) {
  const MeshLayout* layout = strategy.operands[0];
  const MeshLayout* result = strategy.results[0];
  WindowDim& w = problem.window[At(d)];
  const DimRange range =
      RangeOf(w, problem.input->dim(d), problem.output->dim(d), result->Count(d));
  FetchedRange fetched;
  for (int64_t i = 0; i < inputs.count; ++i) {
    const ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(i)};
    fetched = FetchRange(rule.scope(), inputs.locals[At(i)], {d, result, result->axes(d)},
                         layout->IsSharded(d), range, inputs.fills[At(i)], cause);
    inputs.locals[At(i)] = fetched.local;
  }
  w.pad_low = fetched.pad_low;
  w.pad_high = fetched.pad_high;
  w.base_dilation = fetched.dilation;
}

}  // namespace

RuleResult ReduceWindow(PartitionContext& rule) {
  const Instruction& source = rule.source();
  WindowProblem problem;
  problem.window = WindowOf(rule);
  problem.input = rule.operand_shape(0);
  problem.output = source.shape()->IsTuple() ? source.shape()->element(0) : source.shape();
  problem.count = static_cast<int64_t>(rule.operands().size()) / 2;
  const int64_t rank = problem.input->rank();
  if (problem.output->element_count() == 0 || problem.input->element_count() == 0) {
    return rule.Default();
  }
  const int64_t moving = std::count_if(problem.window.begin(), problem.window.end(),
                                       [](const WindowDim& w) { return !IsTrivial(w); });
  problem.running.resize(At(rank));
  problem.halo.assign(At(rank), 0);
  std::vector<std::vector<RangeCut>> alternatives;
  for (int64_t d = 0; d < rank; ++d) {
    if (moving == 1) {
      problem.running[At(d)] =
          RunningOf(problem.window[At(d)], problem.input->dim(d), problem.output->dim(d));
    }
    alternatives.push_back(CutsOf(rule, problem, d));
  }
  const CutChoice choice =
      ChooseCuts(rule, rule.operands(), std::move(alternatives), rule.wanted_leaves(),
                 [&](std::span<const RangeCut> cuts) { return LabelsOf(rule, problem, cuts); });
  const Strategy& strategy = choice.strategy;
  Inputs inputs = InputsOf(rule, problem.count, strategy);
  for (int64_t d = 0; d < rank; ++d) {
    if (IsTrivial(problem.window[At(d)]) || !strategy.results[0]->IsSharded(d)) continue;
    if (problem.running[At(d)] && strategy.operands[0]->IsSharded(d)) {
      return RunningFold(rule, problem, std::move(inputs), d, strategy);
    }
    FetchDim(rule, problem, inputs, d, strategy);
  }
  std::vector<Instruction*> operands = inputs.locals;
  operands.insert(operands.end(), inputs.inits.begin(), inputs.inits.end());
  WindowAttributes attributes{rule.scope().run().module.arena().Copy(problem.window)};
  Computation* const called[] = {source.called(0)};
  Instruction* local =
      rule.builder().Add(Opcode::kReduceWindow, operands, attributes, nullptr, called);
  rule.TakeName(local);
  return rule.scope().NewFromLocal(source.shape(), strategy.results, local);
}

// --- select-and-scatter

namespace {

// Whose neutral element loses every comparison of a selecting computation, if it is a plain one.
std::optional<Opcode> LosingFor(const Computation& select) {
  const std::optional<CompareAttributes> compare = ComparisonOf(select);
  if (!compare) return std::nullopt;
  switch (compare->direction) {
    case ComparisonDirection::kGe:
    case ComparisonDirection::kGt:
      return Opcode::kMaximum;
    case ComparisonDirection::kLe:
    case ComparisonDirection::kLt:
      return Opcode::kMinimum;
    case ComparisonDirection::kEq:
    case ComparisonDirection::kNe:
      break;
  }
  return std::nullopt;
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

Labels LabelsOfSelect(PartitionContext& rule, std::span<const WindowDim> window, bool may_cut) {
  const Shape* shape = rule.source().shape();
  Labels labels = Labels::Pointwise(2, shape->rank());
  labels.operands.emplace_back();
  for (int64_t d = 0; d < shape->rank(); ++d) {
    const WindowDim& w = window[At(d)];
    if (IsTrivial(w)) continue;
    const int64_t shards = std::max(
        {rule.wanted()->Count(d), MostTiles(*rule.operand(0), d), MostTiles(*rule.operand(1), d)});
    if (!may_cut || shards == 1) {
      labels.operands[0][At(d)] = labels.operands[1][At(d)] = labels.results[0][At(d)] =
          Labels::kWhole;
      continue;
    }
    const TouchingWindows touching =
        TouchingOf(w, shape->dim(d), rule.operand_shape(1)->dim(d), shards);
    labels.labels[At(labels.results[0][At(d)])].bytes_if_cut =
        2 * HaloCost(rule.scope(), *rule.operand(0), d, touching.operand, shards);
  }
  return labels;
}

}  // namespace

RuleResult SelectAndScatter(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<WindowDim> window = WindowOf(rule);
  const Shape* shape = source.shape();
  const Shape* windows = rule.operand_shape(1);
  std::optional<Opcode> loses = LosingFor(*source.called(0));
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
  const Strategy& strategy = rule.Choose(LabelsOfSelect(rule, window, may_cut));
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
    values = ExchangeHalo(scope, values, {d, layout, axes}, request, rule.Cause());
    values = MaskRange(scope, values, d, first, 0, windows->dim(d), identity);

    Instruction* loser = Identity(scope, *loses, operand->shape()->dtype());
    operand = FetchPositions(scope, operand, {d, layout, axes}, /*is_cut=*/true,
                             cut.touching.operand, loser, rule.Cause());
    Instruction* start = builder.Binary(Opcode::kMultiply, first, geometry.Int(w.stride));
    cut.first =
        builder.Binary(Opcode::kSubtract, start,
                       geometry.Affine(axes, layout->order, cut.touching.operand.scale, w.pad_low));
    operand =
        SliceRange(scope, operand, d,
                   {cut.first, -cut.touching.least, 0, cut.touching.greatest - cut.touching.least},
                   cut.touching.covered, nullptr);
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
    local = SliceRange(scope, local, cut.dim,
                       {start, 0, -cut.touching.greatest, -cut.touching.least}, tile, init);
  }
  local->set_shape(LocalShape(rule.context(), shape, layout));
  rule.TakeName(local);
  return rule.Result(local, layout);
}

}  // namespace gshard::partition_rules
