// The markers of shardings and manual regions, and calls of which nothing else is known.
#include "ir/custom_call.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "core/partition/ops/rules.h"
#include "core/partition/scope/masking.h"
#include "core/partition/scope/moving_tiles.h"
#include "ir/attention_call.h"
#include "ir/dims.h"
#include "ir/dimwise_call.h"
#include "ir/linalg_call.h"

namespace gshard::partition_rules {

namespace {

AxisList WithoutSubAxes(const AxisList& axes, const AxisList& dropped, int64_t device_count) {
  AxisList all = axes;
  all.insert(all.end(), dropped.begin(), dropped.end());
  std::optional<AxisList> sub_axes = CommonSubAxes(all, device_count);
  CheckInternal(sub_axes.has_value(), "manual sub-axes that cut no mesh axes");
  AxisList kept;
  for (const DeviceAxis& axis : axes) {
    for (int sub_axis : SubAxesOf(*sub_axes, axis)) {
      const DeviceAxis& part = (*sub_axes)[static_cast<size_t>(sub_axis)];
      bool is_dropped = false;
      for (const DeviceAxis& drop : dropped) {
        is_dropped |= part.stride >= drop.stride && part.stride < drop.stride * drop.size;
      }
      if (!is_dropped) kept.push_back(part);
    }
  }
  return MergedAxes(kept);
}

// The local value gets another layout: nothing moves.
RuleResult Relabelled(PartitionContext& rule, Instruction* local, const MeshLayout* layout) {
  const Shape* expected = LocalShape(rule.context(), rule.source().shape(), layout);
  if (!SameDims(local->shape(), expected)) {
    return rule.Error(
        "E-PARTITION-004",
        "the local shape " + ToString(local->shape(), false) +
            " at the border of the manual region is not the one its sharding gives, " +
            ToString(expected, false));
  }
  return rule.Result(local, layout);
}

int64_t TilesOf(const AxisList& axes) {
  int64_t tiles = 1;
  for (const DeviceAxis& axis : axes) tiles *= axis.size;
  return tiles;
}

// At the border of a manual region. Where the part of a dim that the manual axes leave does not
// divide by the other axes, it is padded part by part inside, and at the end of the array outside:
// no tile is the same. Such a dim crosses the border cut by its manual axes alone.
const MeshLayout* WithEvenParts(PartitionContext& rule, const Shape* shape,
                                const MeshLayout* outside, const AxisList& manual) {
  if (outside->kind != MeshLayout::Kind::kTiled || manual.empty()) return outside;
  std::vector<AxisList> dims = outside->dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    const AxisList inner = WithoutSubAxes(dims[d], manual, rule.layouts().device_count());
    const int64_t tiles = TilesOf(dims[d]), inner_tiles = TilesOf(inner);
    if (inner_tiles == 1 || inner_tiles == tiles) continue;
    if (shape->dim(static_cast<int64_t>(d)) % tiles == 0) continue;
    dims[d] = WithoutSubAxes(dims[d], inner, rule.layouts().device_count());
  }
  return dims == outside->dims ? outside : rule.layouts().WithDims(outside, std::move(dims));
}

// `outside` as the region has it, which is `inside` but for its dims.
const MeshLayout* WithinRegion(PartitionContext& rule, const MeshLayout* inside,
                               const MeshLayout* outside, const AxisList& manual) {
  std::vector<AxisList> dims;
  for (const AxisList& axes : outside->dims) {
    dims.push_back(WithoutSubAxes(axes, manual, rule.layouts().device_count()));
  }
  return rule.layouts().WithDims(inside, std::move(dims));
}

// Automatic -> manual: the tile as it is, its padding zero.
RuleResult EnterManual(PartitionContext& rule) {
  PartitionedValue* operand = rule.operand(0);
  if (operand->IsTuple()) return rule.Error("E-PARTITION-004", "a tuple enters a manual region");
  // Exactly as the user's sharding has it.
  const MeshLayout* layout = PartitionScope::LayoutOf(*operand);
  if (const Sharding* sharding = rule.source().operand(0)->sharding();
      sharding != nullptr && !sharding->IsTuple()) {
    layout = rule.layouts().FromSharding(sharding, operand->shape->rank());
  }
  const MeshLayout* wanted = rule.wanted();
  const MeshLayout* even = WithEvenParts(rule, operand->shape, layout, wanted->manual);
  if (even != layout) {
    layout = even;
    wanted = WithinRegion(rule, wanted, layout, wanted->manual);
  }
  Instruction* local = rule.Operand(0, layout);
  if (layout->kind == MeshLayout::Kind::kTiled && !DividesEvenly(operand->shape, layout)) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < layout->rank(); ++d) dims.push_back(d);
    Instruction* zero = rule.geometry().Number(operand->shape->dtype(), 0);
    local = MaskPadding(rule.scope(), local, operand->shape, layout, dims, zero);
  }
  return Relabelled(rule, local, wanted);
}

// Manual -> automatic: within the region the value must lie as outside it, manual sub-axes apart.
RuleResult LeaveManual(PartitionContext& rule) {
  PartitionedValue* operand = rule.operand(0);
  if (operand->IsTuple()) return rule.Error("E-PARTITION-004", "a tuple leaves a manual region");
  const MeshLayout* inside = PartitionScope::LayoutOf(*operand);
  const MeshLayout* wanted = rule.wanted();
  if (inside->kind == MeshLayout::Kind::kTiled && !inside->manual.empty()) {
    wanted = WithEvenParts(rule, rule.source().shape(), wanted, inside->manual);
    inside = WithinRegion(rule, inside, wanted, inside->manual);
  }
  return Relabelled(rule, rule.Operand(0, inside), wanted);
}

// A call to LAPACK on the tiles of a batch of matrices, which are whole.
RuleResult OnBatch(PartitionContext& rule, int64_t batch) {
  const Instruction& source = rule.source();
  std::vector<int> batch_labels;
  Labels labels;
  for (int64_t d = 0; d < batch; ++d) batch_labels.push_back(labels.Add());
  const auto labels_of = [&](const Shape* shape) {
    std::vector<int> dims = batch_labels;
    dims.resize(At(shape->rank()), Labels::kWhole);
    return dims;
  };
  for (const PartitionedValue* operand : rule.operands()) {
    labels.operands.push_back(labels_of(operand->shape));
    labels.flops += static_cast<double>(operand->shape->element_count());
  }
  for (const Shape* shape : rule.ResultShapes()) labels.results.push_back(labels_of(shape));
  const Strategy strategy = ChooseMovingTiles(rule, labels);

  std::vector<int64_t> dims(At(batch));
  std::iota(dims.begin(), dims.end(), 0);
  std::vector<Instruction*> locals;
  std::vector<const Shape*> results;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    const MeshLayout* layout = strategy.operands[i];
    const Shape* shape = rule.operands()[i]->shape;
    Instruction* local = rule.Operand(static_cast<int64_t>(i), layout);
    // Matrices of padding: what lies there might not converge.
    Instruction* zero = rule.geometry().Number(shape->dtype(), 0);
    locals.push_back(MaskPadding(rule.scope(), local, shape, layout, dims, zero));
  }
  for (size_t i = 0; i < strategy.results.size(); ++i) {
    results.push_back(LocalShape(rule.context(), rule.ResultShapes()[i], strategy.results[i]));
  }
  Instruction* local = rule.EmitLocal(
      locals, source.shape()->IsTuple() ? rule.context().Tuple(results) : results[0]);
  return rule.scope().NewFromLocal(source.shape(), strategy.results, local);
}

// The same call on equal tiles.
RuleResult Dimwise(PartitionContext& rule) {
  Labels labels;
  std::vector<int> dims;
  for (int64_t d = 0; d < rule.source().shape()->rank(); ++d) {
    const bool follows = FollowsOperandDim(rule.source(), d);
    dims.push_back(follows ? labels.Add({.divides = true}) : Labels::kWhole);
  }
  labels.operands = {dims};
  labels.results = {dims};
  return rule.ByLabels(labels);
}

// How a call that Python code partitions is cut: by its sharding rule. What that code does is not
// known; nearly always it keeps the tiles that are there and repeats the call on them.
class CutByRule {
 public:
  CutByRule(PartitionContext& rule, const DimRelation& relation)
      : rule_(rule), relation_(relation), axes_(relation.factors.size()) {
    const auto add = [&](const std::vector<FactorList>& dims, const Shape* shape,
                         const MeshLayout* layout, bool is_result) {
      if (shape->IsArray()) tensors_.push_back({&dims, shape, layout, is_result, {}});
    };
    for (size_t r = 0; r < rule.ResultShapes().size(); ++r) {
      add(relation.results[r], rule.ResultShapes()[r], rule.wanted_leaves()[r], true);
    }
    for (size_t i = 0; i < rule.operands().size(); ++i) {
      const PartitionedValue* operand = rule.operands()[i];
      if (!operand->IsTuple())
        add(relation.operands[i], operand->shape, PartitionScope::LayoutOf(*operand), false);
    }
    for (size_t f = 0; f < axes_.size(); ++f) Cut(static_cast<int>(f));
  }

  const MeshLayout* Layout(const std::vector<FactorList>& dims) const {
    std::vector<AxisList> axes;
    for (const FactorList& dim : dims) {
      axes.push_back(dim.size() == 1 ? axes_[At(dim.front())] : AxisList());
    }
    return rule_.layouts().WithDims(rule_.Whole(static_cast<int64_t>(dims.size())),
                                    std::move(axes));
  }

 private:
  struct Tensor {
    const std::vector<FactorList>* dims;
    const Shape* shape;
    const MeshLayout* layout;  // as it is, or, of a result, as it is wanted
    bool is_result;
    AxisList used;
  };

  static std::optional<int64_t> DimOf(const Tensor& tensor, int factor) {
    for (size_t d = 0; d < tensor.dims->size(); ++d) {
      const FactorList& dim = (*tensor.dims)[d];
      if (dim.size() == 1 && dim.front() == factor) return static_cast<int64_t>(d);
    }
    return std::nullopt;
  }

  // What several operands share and no result has is summed over, by code that is not here.
  bool IsWhole(int factor) const {
    if (relation_.factors[At(factor)].kind != FactorKind::kPassThrough) return true;
    int operands = 0;
    for (const Tensor& tensor : tensors_) {
      if (!DimOf(tensor, factor)) continue;
      if (tensor.is_result) return false;
      ++operands;
    }
    return operands > 1;
  }

  bool CanCut(int factor, const AxisList& axes) const {
    for (const Tensor& tensor : tensors_) {
      const std::optional<int64_t> d = DimOf(tensor, factor);
      if (!d) continue;
      AxisList all = tensor.used;
      all.insert(all.end(), axes.begin(), axes.end());
      const std::optional<AxisList> parts = CommonSubAxes(all, rule_.layouts().device_count());
      if (!parts || tensor.shape->dim(*d) % AxesSize(axes) != 0) return false;
      std::vector<bool> is_taken(parts->size());
      for (const DeviceAxis& axis : all) {
        for (const int part : SubAxesOf(*parts, axis)) {
          if (is_taken[At(part)]) return false;
          is_taken[At(part)] = true;
        }
      }
    }
    return true;
  }

  // As the first result, else the first operand, that is cut along it.
  void Cut(int factor) {
    if (IsWhole(factor)) return;
    for (const Tensor& tensor : tensors_) {
      const std::optional<int64_t> d = DimOf(tensor, factor);
      if (!d || tensor.layout->kind != MeshLayout::Kind::kTiled) continue;
      const AxisList& axes = tensor.layout->axes(*d);
      if (axes.empty() || tensor.layout->order != nullptr || !CanCut(factor, axes)) continue;
      axes_[At(factor)] = axes;
      for (Tensor& user : tensors_) {
        if (DimOf(user, factor)) user.used.insert(user.used.end(), axes.begin(), axes.end());
      }
      return;
    }
  }

  PartitionContext& rule_;
  const DimRelation& relation_;
  std::vector<AxisList> axes_;  // by factor
  std::vector<Tensor> tensors_;
};

// Attention's rule says of each operand what may be cut, but not that they must be cut alike: by
// examples and heads, in q, k, v, their gradients and the statistics of rows ([examples, heads,
// rows]), and nothing else.
DimRelation RelationOfAttention(const Instruction& call, int64_t heads_dim,
                                std::span<const Shape* const> results) {
  constexpr int kExamples = 0, kHeads = 1;
  const std::span<const int64_t> q = call.operand(0)->shape()->dims();
  const std::span<const int64_t> k = call.operand(1)->shape()->dims();
  const std::array<int64_t, 3> statistics = {q[0], q[At(heads_dim)], q[At(3 - heads_dim)]};
  DimRelation relation;
  relation.factors = {{q[0]}, {k[At(heads_dim)]}};
  const auto add = [&](const Shape* shape, std::vector<std::vector<FactorList>>& tensors) {
    std::vector<FactorList>& dims = tensors.emplace_back();
    if (!shape->IsArray()) return;
    const std::span<const int64_t> sizes = shape->dims();
    const bool has_width =
        sizes.size() == q.size() && (std::ranges::equal(sizes.first(3), q.first(3)) ||
                                     std::ranges::equal(sizes.first(3), k.first(3)));
    const bool is_statistics = std::ranges::equal(sizes, statistics);
    for (int64_t d = 0; d < shape->rank(); ++d) {
      const bool is_heads = (has_width && d == heads_dim) || (is_statistics && d == 1);
      if ((has_width || is_statistics) && (d == 0 || is_heads)) {
        dims.push_back({is_heads ? kHeads : kExamples});
        continue;
      }
      dims.push_back({static_cast<int>(relation.factors.size())});
      relation.factors.push_back({sizes[At(d)], FactorKind::kNeedReplication});
    }
  };
  for (const Instruction* operand : call.operands()) add(operand->shape(), relation.operands);
  for (const Shape* result : results) add(result, relation.results);
  return relation;
}

RuleResult ByOwnRule(PartitionContext& rule) {
  const std::optional<AttentionCall> attention = AttentionByDims(rule.source());
  const DimRelation relation =
      attention ? RelationOfAttention(rule.source(), attention->heads_dim, rule.ResultShapes())
                : RelationOf(rule.source());
  const bool has_region = !rule.wanted_leaves().empty() && rule.wanted()->order == nullptr &&
                          rule.wanted()->kind == MeshLayout::Kind::kTiled;
  const auto is_array = [](const Shape* shape) { return shape->IsArray(); };
  if (!relation.relates || !has_region || !std::ranges::all_of(rule.ResultShapes(), is_array)) {
    return rule.Default();
  }
  const CutByRule cut(rule, relation);
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    if (rule.operands()[i]->IsTuple()) return rule.Default();
    locals.push_back(rule.Operand(static_cast<int64_t>(i), cut.Layout(relation.operands[i])));
  }
  std::vector<const MeshLayout*> results;
  for (const std::vector<FactorList>& dims : relation.results) results.push_back(cut.Layout(dims));
  return rule.Emit(locals, results);
}

}  // namespace

RuleResult CustomCall(PartitionContext& rule) {
  const auto& call = rule.attributes<CustomCallAttributes>();
  if (IsShardingMarker(call.target)) {
    const PartitionedValue& operand = *rule.operand(0);
    if (operand.IsTuple()) {
      return rule.scope().NewTuple(rule.source().shape(), operand.elements);
    }
    return rule.scope().NewCopy(operand);  // another layout to aim at
  }
  if (IsPlacementHint(call.target)) return Pointwise(rule);
  if (call.target == kEnterManualTarget) return EnterManual(rule);
  if (call.target == kLeaveManualTarget) return LeaveManual(rule);
  if (IsDimwiseCall(rule.source())) return Dimwise(rule);
  if (call.target == kTopKTarget) return TopK(rule);
  if (call.target == kPythonPartitionedTarget) return ByOwnRule(rule);
  if (const int64_t batch = BatchDimsOf(rule.source()); batch > 0) return OnBatch(rule, batch);
  return rule.Default();
}

}  // namespace gshard::partition_rules
