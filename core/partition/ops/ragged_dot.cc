// Ragged dots: as dots, and the ragged and the group dim may be cut too. Sizes are then counted
// again: a tile of the ragged dim has its own part of every group, a tile of the group dim the rows
// of its own groups (expert parallelism). Part of the dot family.
#include <algorithm>

#include "core/partition/ops/rules.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

enum class Ragged : uint8_t { kRows, kContracting, kBatch };

struct RaggedLabels {
  Labels labels;
  int ragged = Labels::kWhole;
  int group = Labels::kWhole;
};

class RaggedDotRule {
 public:
  explicit RaggedDotRule(PartitionContext& rule)
      : rule_(rule), builder_(rule.builder()), dot_(rule.attributes<DotAttributes>()) {
    ragged_ = dot_.lhs_ragged[0];
    kind_ = Contains(dot_.lhs_contracting, ragged_) ? Ragged::kContracting
            : Contains(dot_.lhs_batch, ragged_)     ? Ragged::kBatch
                                                    : Ragged::kRows;
    auto batch_dims = static_cast<int64_t>(dot_.lhs_batch.size());
    sizes_per_batch_ = kind_ != Ragged::kBatch && rule.operand_shape(2)->rank() == batch_dims + 1 &&
                       batch_dims > 0;
    if (kind_ == Ragged::kContracting) {
      auto at = std::find(dot_.lhs_contracting.begin(), dot_.lhs_contracting.end(), ragged_);
      rhs_ragged_ = dot_.rhs_contracting[At(at - dot_.lhs_contracting.begin())];
    }
  }

  RuleResult Run() {
    if (kind_ != Ragged::kBatch && !sizes_per_batch_ && rule_.operand_shape(2)->rank() != 1) {
      return rule_.Default();
    }
    RaggedLabels all = MakeLabels();
    const Strategy& strategy = rule_.Choose(all.labels);
    Instruction* lhs = Masked(0, strategy.operands[0], dot_.lhs_contracting);
    Instruction* rhs = Masked(1, strategy.operands[1], dot_.rhs_contracting);
    Instruction* sizes = rule_.Operand(2, strategy.operands[2]);

    bool cuts_ragged = all.ragged != Labels::kWhole && !strategy.cut[At(all.ragged)].empty();
    bool cuts_group = all.group != Labels::kWhole && !strategy.cut[At(all.group)].empty();
    if (cuts_ragged || cuts_group) sizes = builder_.Convert(sizes, DType::kS32);
    if (cuts_ragged && kind_ != Ragged::kBatch) {
      sizes = SizesInTile(sizes, lhs, strategy.operands[0]);
    }
    if (!cuts_group) {
      Instruction* locals[] = {lhs, rhs, sizes};
      return rule_.Emit(locals, strategy.results);
    }
    return OwnGroups(lhs, rhs, sizes, strategy, all.group);
  }

 private:
  RaggedLabels MakeLabels() {
    RaggedLabels all;
    Labels& labels = all.labels;
    const Shape* lhs = rule_.operand_shape(0);
    const Shape* rhs = rule_.operand_shape(1);
    const Shape* sizes = rule_.operand_shape(2);
    labels.operands = {std::vector<int>(At(lhs->rank()), Labels::kWhole),
                       std::vector<int>(At(rhs->rank()), Labels::kWhole),
                       std::vector<int>(At(sizes->rank()), Labels::kWhole)};
    std::vector<int>& result = labels.results.emplace_back();
    std::vector<int>& l = labels.operands[0];
    std::vector<int>& r = labels.operands[1];
    // Counting groups per batch entry is not worth the trouble: those dims are cut or counted.
    const bool counts = !sizes_per_batch_ && rule_.scope().run().options.policies.cut_ragged_dots;
    if (kind_ == Ragged::kContracting) {
      all.group = counts ? labels.Add() : Labels::kWhole;
      result.push_back(all.group);
    }
    for (size_t i = 0; i < dot_.lhs_batch.size(); ++i) {
      int label = labels.Add();
      l[At(dot_.lhs_batch[i])] = r[At(dot_.rhs_batch[i])] = label;
      result.push_back(label);
      if (sizes_per_batch_) labels.operands[2][i] = label;
    }
    labels.flops = 2;
    for (size_t i = 0; i < dot_.lhs_contracting.size(); ++i) {
      int64_t d = dot_.lhs_contracting[i];
      labels.flops *= static_cast<double>(lhs->dim(d));
      if (d == ragged_ && !counts) continue;
      int label = labels.Add({.summed = true});
      l[At(d)] = r[At(dot_.rhs_contracting[i])] = label;
      if (d == ragged_) all.ragged = label;
    }
    double rows = 1;
    for (int64_t d = 0; d < lhs->rank(); ++d) {
      if (Contains(dot_.lhs_contracting, d)) continue;
      rows *= static_cast<double>(lhs->dim(d));
      if (Contains(dot_.lhs_batch, d)) continue;
      bool is_ragged = d == ragged_;
      if (!is_ragged || counts) l[At(d)] = labels.Add();
      if (is_ragged) all.ragged = l[At(d)];
      result.push_back(l[At(d)]);
    }
    for (int64_t d = 0; d < rhs->rank(); ++d) {
      if (Contains(dot_.rhs_batch, d) || Contains(dot_.rhs_contracting, d)) continue;
      if (Contains(dot_.rhs_group, d)) {
        if (counts) all.group = r[At(d)] = labels.Add({.summed = true});
        continue;
      }
      r[At(d)] = labels.Add();
      result.push_back(r[At(d)]);
      rows *= static_cast<double>(rhs->dim(d));
    }
    labels.flops *= rows;
    return all;
  }

  Instruction* Masked(int64_t i, const MeshLayout* layout, Dims contracting) {
    const Shape* shape = rule_.operand_shape(i);
    Instruction* zero = rule_.geometry().Number(shape->dtype(), 0);
    return MaskPadding(rule_.scope(), rule_.Operand(i, layout), shape, layout, contracting, zero);
  }

  // End of every group, counted in rows: the running sum of the sizes.
  Instruction* Ends(Instruction* sizes) {
    int64_t groups = sizes->shape()->dim(0);
    WindowDim window;
    window.size = groups;
    window.pad_low = groups - 1;
    Instruction* operands[] = {sizes, rule_.geometry().Int(0)};
    WindowAttributes attributes;
    attributes.window =
        rule_.scope().run().module.arena().Copy(std::span<const WindowDim>(&window, 1));
    Computation* called[] = {builder_.BinaryComputation(Opcode::kAdd, DType::kS32)};
    return builder_.Add(Opcode::kReduceWindow, operands, attributes, sizes->shape()->bare(),
                        called);
  }

  // Rows of every group that lie in this device's tile of the ragged dim.
  Instruction* SizesInTile(Instruction* sizes, Instruction* lhs, const MeshLayout* layout) {
    std::span<const int64_t> dims = sizes->shape()->dims();
    Instruction* offset = builder_.Convert(
        rule_.geometry().Offset(rule_.operand_shape(0), layout, ragged_), DType::kS32);
    Instruction* zero = builder_.BroadcastScalar(rule_.geometry().Int(0), dims);
    Instruction* tile =
        builder_.BroadcastScalar(rule_.geometry().Int(lhs->shape()->dim(ragged_)), dims);
    Instruction* end = Ends(sizes);
    end = builder_.Subtract(end, builder_.BroadcastScalar(offset, dims));
    Instruction* begin = builder_.Clamp(zero, builder_.Subtract(end, sizes), tile);
    end = builder_.Clamp(zero, end, tile);
    return builder_.Subtract(end, begin);
  }

  // `x` with row `start` first (or, `back`, its row 0 at row `start`) and zeros where it has no
  // rows.
  Instruction* Shifted(Instruction* x, int64_t dim, Instruction* start, bool back) {
    const Shape* shape = x->shape();
    int64_t rows = shape->dim(dim);
    Instruction* zero = rule_.geometry().Number(shape->dtype(), 0);
    Instruction* padded = builder_.PadDimension(x, zero, dim, back ? rows : 0, back ? 0 : rows);
    std::vector<Instruction*> starts(At(shape->rank()), rule_.geometry().Int(0));
    starts[At(dim)] = back ? builder_.Subtract(rule_.geometry().Int(rows), start) : start;
    return builder_.DynamicSlice(padded, starts, shape->dims());
  }

  // Every device has the rows of all groups and computes those of its own groups: they are moved
  // to the front, and back afterwards if they are rows of the result.
  PartitionedValue* OwnGroups(Instruction* lhs, Instruction* rhs, Instruction* sizes,
                              const Strategy& strategy, int label) {
    const AxisList& axes = strategy.cut[At(label)];
    const DeviceOrder* order = strategy.results[0]->order;
    int64_t groups = sizes->shape()->dim(0);
    int64_t shards = AxesSize(axes);
    int64_t tile = CeilOfRatio(groups, shards);
    Instruction* zero = rule_.geometry().Int(0);
    Instruction* first = rule_.geometry().Affine(axes, order, tile, 0);
    Instruction* starts[] = {first};
    Instruction* begins = builder_.Subtract(Ends(sizes), sizes);
    // Groups beyond the last one begin where it ends; nothing is in them.
    Instruction* padded = builder_.PadDimension(sizes, zero, 0, 0, tile * shards - groups);
    const int64_t own[] = {tile};
    Instruction* own_sizes = builder_.DynamicSlice(padded, starts, own);
    const int64_t one[] = {1};
    Instruction* start = builder_.Reshape(builder_.DynamicSlice(begins, starts, one), {});
    start = builder_.Clamp(zero, start, rule_.geometry().Int(lhs->shape()->dim(ragged_)));

    Instruction* locals[] = {Shifted(lhs, ragged_, start, /*back=*/false), rhs, own_sizes};
    if (kind_ == Ragged::kContracting) {
      locals[1] = Shifted(rhs, rhs_ragged_, start, /*back=*/false);
      return rule_.Emit(locals, strategy.results);
    }
    Instruction* product =
        builder_.CloneWith(&rule_.source(), locals,
                           LocalShape(rule_.context(), rule_.source().shape(),
                                      rule_.layouts().Reduced(strategy.results[0])));
    product->set_sharding(nullptr);
    Instruction* result = Shifted(product, ResultDim(), start, /*back=*/true);
    rule_.TakeName(result);
    return rule_.Result(result, strategy.results[0]);
  }

  // Where the ragged rows are in the result.
  int64_t ResultDim() const {
    auto at = static_cast<int64_t>(dot_.lhs_batch.size());
    for (int64_t d = 0; d < ragged_; ++d) {
      if (!Contains(dot_.lhs_batch, d) && !Contains(dot_.lhs_contracting, d)) ++at;
    }
    return at;
  }

  PartitionContext& rule_;
  Builder& builder_;
  const DotAttributes& dot_;
  int64_t ragged_ = 0;
  int64_t rhs_ragged_ = 0;
  Ragged kind_ = Ragged::kRows;
  bool sizes_per_batch_ = false;  // every batch entry has its own group sizes
};

}  // namespace

RuleResult RaggedDot(PartitionContext& rule) { return RaggedDotRule(rule).Run(); }

}  // namespace gshard::partition_rules
