// Convolutions: batch and feature dims are labels as of a dot; spatial dims are cut with halos, or,
// where input and kernel are both cut (weight gradients), summed over the kernel's tiles (GSPMD
// paper, section 4.3).
#include <algorithm>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/dim_range.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

struct SpatialDim {
  WindowDim window;
  int64_t input = 0, kernel = 0, output = 0;  // dims of the shapes
  int64_t input_size = 0, output_size = 0;
  // Of the exchange if input and output are cut, if input and kernel are.
  double halo_cost = 0, sweep_cost = 0;
  int64_t DilatedWindow() const { return (window.size - 1) * window.window_dilation + 1; }
};

std::vector<SpatialDim> SpatialDims(PartitionContext& rule) {
  const auto& conv = rule.attributes<ConvolutionAttributes>();
  std::vector<SpatialDim> dims;
  for (size_t k = 0; k < conv.window.size(); ++k) {
    SpatialDim dim;
    dim.window = conv.window[k];
    dim.input = conv.input_spatial[k];
    dim.kernel = conv.kernel_spatial[k];
    dim.output = conv.output_spatial[k];
    dim.input_size = rule.operand_shape(0)->dim(dim.input);
    dim.output_size = rule.source().shape()->dim(dim.output);
    dims.push_back(dim);
  }
  return dims;
}

// What a shard reads of the input when the output is cut.
DimRange OutputRange(const SpatialDim& dim, int64_t shards) {
  int64_t count = CeilOfRatio(dim.output_size, shards);
  return {
      .size = dim.input_size,
      .dilation = dim.window.base_dilation,
      .scale = dim.window.stride * count,
      .bias = -dim.window.pad_low,
      .length = dim.window.stride * (count - 1) + dim.DilatedWindow(),
      .end = dim.window.stride * (dim.output_size - 1) + dim.DilatedWindow() - dim.window.pad_low};
}

// What a shard reads of the input when the kernel is cut: all windows, seen through its taps. Taps
// in the padding of the last tile are zero, and must meet no NaN: all positions count.
DimRange KernelRange(const SpatialDim& dim, int64_t shards) {
  int64_t taps = CeilOfRatio(dim.window.size, shards);
  int64_t step = dim.window.window_dilation;
  int64_t sweep = (dim.output_size - 1) * dim.window.stride + 1;
  DimRange range{.size = dim.input_size,
                 .dilation = dim.window.base_dilation,
                 .scale = taps * step,
                 .bias = -dim.window.pad_low,
                 .length = (taps - 1) * step + sweep};
  if (dim.window.reversal) {  // the first taps are applied to the last positions
    range.scale = -range.scale;
    range.bias += (dim.window.size - taps) * step;
  }
  return range;
}

bool IsPointwise(const SpatialDim& dim) {
  const WindowDim& w = dim.window;
  return w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1;
}

struct ConvLabels {
  Labels labels;
  int input_feature = -1;  // summed
};

ConvLabels LabelsOf(PartitionContext& rule, std::span<const SpatialDim> spatial,
                    std::span<const RangeCut> cuts) {
  const auto& conv = rule.attributes<ConvolutionAttributes>();
  const Shape* result = rule.source().shape();
  ConvLabels made;
  Labels& labels = made.labels;
  for (int64_t i = 0; i < 2; ++i) {
    labels.operands.emplace_back(At(rule.operand_shape(i)->rank()), Labels::kWhole);
  }
  labels.results.emplace_back(At(result->rank()), Labels::kWhole);
  auto input = [&](int64_t dim) -> int& { return labels.operands[0][At(dim)]; };
  auto kernel = [&](int64_t dim) -> int& { return labels.operands[1][At(dim)]; };
  auto output = [&](int64_t dim) -> int& { return labels.results[0][At(dim)]; };

  int features = labels.Add();
  output(conv.output_feature) = kernel(conv.kernel_output_feature) = features;
  if (conv.batch_group_count > 1) {
    labels.labels[At(features)] = {.divides = true, .groups = conv.batch_group_count};
    input(conv.input_batch) = features;
  } else {
    input(conv.input_batch) = output(conv.output_batch) = labels.Add();
  }
  if (conv.feature_group_count > 1) {
    if (conv.batch_group_count == 1) {
      labels.labels[At(features)] = {.divides = true, .groups = conv.feature_group_count};
      input(conv.input_feature) = features;
    }
  } else {
    made.input_feature = labels.Add({.summed = true});
    input(conv.input_feature) = kernel(conv.kernel_input_feature) = made.input_feature;
  }
  double taps = static_cast<double>(rule.operand_shape(1)->dim(conv.kernel_input_feature));
  for (size_t k = 0; k < spatial.size(); ++k) {
    const SpatialDim& dim = spatial[k];
    taps *= static_cast<double>(dim.window.size);
    switch (cuts[k]) {
      case RangeCut::kWhole:
        break;
      case RangeCut::kHalo:
        input(dim.input) = output(dim.output) = labels.Add({.bytes_if_cut = dim.halo_cost});
        break;
      case RangeCut::kResult:
        output(dim.output) = labels.Add();
        break;
      case RangeCut::kPartial:
        input(dim.input) = kernel(dim.kernel) =
            labels.Add({.summed = true, .bytes_if_cut = dim.sweep_cost});
        break;
    }
  }
  labels.flops = 2 * taps * static_cast<double>(result->element_count());
  return made;
}

// The ways in which each spatial dim can be cut, with the halos that they cost noted in `spatial`.
std::vector<std::vector<RangeCut>> SpatialCuts(PartitionContext& rule,
                                               std::vector<SpatialDim>& spatial) {
  std::vector<std::vector<RangeCut>> alternatives;
  for (SpatialDim& dim : spatial) {
    bool is_wanted_cut = rule.wanted()->IsSharded(dim.output);
    bool is_input_cut = IsEverCut(*rule.operand(0), dim.input);
    bool is_kernel_cut = IsEverCut(*rule.operand(1), dim.kernel);
    std::vector<RangeCut>& list = alternatives.emplace_back();
    if (is_wanted_cut || is_input_cut) {
      list.push_back(RangeCut::kHalo);
      int64_t shards =
          is_wanted_cut ? rule.wanted()->Count(dim.output) : MostTiles(*rule.operand(0), dim.input);
      if (!IsPointwise(dim)) {
        dim.halo_cost =
            HaloCost(rule.scope(), *rule.operand(0), dim.input, OutputRange(dim, shards), shards);
      }
    }
    if (is_input_cut || is_kernel_cut) {
      list.push_back(RangeCut::kPartial);
      int64_t shards = is_kernel_cut ? MostTiles(*rule.operand(1), dim.kernel)
                                     : MostTiles(*rule.operand(0), dim.input);
      dim.sweep_cost =
          HaloCost(rule.scope(), *rule.operand(0), dim.input, KernelRange(dim, shards), shards);
    }
    if (is_wanted_cut && !is_input_cut) list.push_back(RangeCut::kResult);
    list.push_back(RangeCut::kWhole);
  }
  return alternatives;
}

// Input and kernel as this device has them, with padding of uneven tiles zero where it would be
// summed. Garbage may be NaN: zero on both sides of a product.
struct LocalOperands {
  Instruction *input, *kernel;
};
LocalOperands MaskedOperands(PartitionContext& rule, std::span<const SpatialDim> spatial,
                             const CutChoice& choice, bool sums_features) {
  const auto& conv = rule.attributes<ConvolutionAttributes>();
  std::vector<int64_t> summed_in, summed_kernel;
  if (sums_features) {
    summed_in.push_back(conv.input_feature);
    summed_kernel.push_back(conv.kernel_input_feature);
  }
  for (size_t k = 0; k < spatial.size(); ++k) {
    if (choice.cuts[k] == RangeCut::kPartial) summed_kernel.push_back(spatial[k].kernel);
  }
  const auto masked = [&](int64_t i, std::span<const int64_t> summed) {
    const MeshLayout* layout = choice.strategy.operands[At(i)];
    Instruction* local = rule.Operand(i, layout);
    return MaskPadding(rule.scope(), local, rule.operand_shape(i), layout, summed,
                       rule.geometry().Number(local->shape()->dtype(), 0));
  };
  Instruction* input = masked(0, summed_in);
  return {input, masked(1, summed_kernel)};
}

// Brings to this device what its window reads of the cut spatial dims; returns the local window.
std::vector<WindowDim> FetchSpatial(PartitionContext& rule, std::span<const SpatialDim> spatial,
                                    const CutChoice& choice, LocalOperands& local) {
  const auto& conv = rule.attributes<ConvolutionAttributes>();
  const MeshLayout* input_layout = choice.strategy.operands[0];
  const MeshLayout* kernel_layout = choice.strategy.operands[1];
  Instruction* zero = rule.geometry().Number(local.input->shape()->dtype(), 0);
  std::vector<WindowDim> window(conv.window.begin(), conv.window.end());
  for (size_t k = 0; k < spatial.size(); ++k) {
    const SpatialDim& dim = spatial[k];
    RangeCut cut = choice.cuts[k];
    const bool is_partial = cut == RangeCut::kPartial;
    const MeshLayout* layout = is_partial ? kernel_layout : choice.strategy.results[0];
    AxisSpan axes = layout->axes(is_partial ? dim.kernel : dim.output);
    if (cut == RangeCut::kWhole || axes.empty()) continue;
    if (cut == RangeCut::kHalo && IsPointwise(dim)) continue;
    int64_t shards = AxesSize(axes);
    DimRange range = is_partial ? KernelRange(dim, shards) : OutputRange(dim, shards);
    const ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
    FetchedRange fetched = FetchRange(rule.scope(), local.input, {dim.input, layout, axes},
                                      input_layout->IsSharded(dim.input), range, zero, cause);
    local.input = fetched.local;
    window[k].size = local.kernel->shape()->dim(dim.kernel);
    window[k].pad_low = fetched.pad_low;
    window[k].pad_high = fetched.pad_high;
    window[k].base_dilation = fetched.dilation;
  }
  return window;
}

}  // namespace

RuleResult Convolution(PartitionContext& rule) {
  const auto& conv = rule.attributes<ConvolutionAttributes>();
  const Shape* shape = rule.source().shape();
  std::vector<SpatialDim> spatial = SpatialDims(rule);
  if (shape->element_count() == 0 || rule.operand_shape(0)->element_count() == 0 ||
      rule.operand_shape(1)->element_count() == 0) {
    return rule.Default();
  }
  CutChoice choice = ChooseCuts(
      rule, rule.operands(), SpatialCuts(rule, spatial), rule.wanted_leaves(),
      [&](std::span<const RangeCut> cuts) { return LabelsOf(rule, spatial, cuts).labels; });
  const ConvLabels made = LabelsOf(rule, spatial, choice.cuts);
  LocalOperands local = MaskedOperands(rule, spatial, choice, made.input_feature >= 0);
  const std::vector<WindowDim> window = FetchSpatial(rule, spatial, choice, local);

  const MeshLayout* result = choice.strategy.results[0];
  ConvolutionAttributes local_conv = conv;
  local_conv.window = rule.scope().run().module.arena().Copy(window);
  int64_t feature_tiles = result->Count(conv.output_feature);
  if (conv.batch_group_count > 1) {
    local_conv.batch_group_count /= feature_tiles;
  } else if (conv.feature_group_count > 1) {
    local_conv.feature_group_count /= feature_tiles;
  }
  Instruction* operands[] = {local.input, local.kernel};
  Instruction* made_local =
      rule.builder().Add(Opcode::kConvolution, operands, local_conv,
                         LocalShape(rule.context(), shape, rule.layouts().Reduced(result)));
  made_local->set_frontend_attributes(rule.source().frontend_attributes());
  made_local->set_backend_config(rule.source().backend_config());
  rule.TakeName(made_local);
  return rule.Result(made_local, result);
}

}  // namespace gshard::partition_rules
