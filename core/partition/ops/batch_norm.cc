// Batch normalisation: statistics are sums over all dims but the feature dim. Where one of those is
// cut, the operation is written out, its sums partial; else it is local on the feature dim. Part of
// the reduce family.
#include <algorithm>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// Labels of operands and results: full arrays, or vectors over the features.
Labels BatchNormLabels(PartitionContext& rule, bool cut_others) {
  int64_t feature = rule.attributes<BatchNormAttributes>().feature_index;
  const Shape* shape = rule.operand_shape(0);
  Labels labels;
  std::vector<int> full(At(shape->rank()), Labels::kWhole);
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (d == feature || cut_others) full[At(d)] = labels.Add();
  }
  const std::vector<int> vector = {full[At(feature)]};
  for (const PartitionedValue* operand : rule.operands()) {
    labels.operands.push_back(Compatible(operand->shape, shape) ? full : vector);
  }
  if (!rule.source().shape()->IsTuple()) {
    labels.results = {full};
  } else {
    for (const Shape* element : rule.source().shape()->elements()) {
      labels.results.push_back(Compatible(element, shape) ? full : vector);
    }
  }
  // A shape of one dim is both; then nothing but the features is there to be cut.
  labels.flops = 8 * static_cast<double>(shape->element_count());
  return labels;
}

// The arithmetic of one device's tile, in f32 (f64) throughout.
class Statistics {
 public:
  Statistics(PartitionContext& rule, const MeshLayout* layout)
      : rule_(rule),
        builder_(rule.builder()),
        layout_(layout),
        shape_(rule.operand_shape(0)),
        feature_(rule.attributes<BatchNormAttributes>().feature_index),
        wide_(shape_->dtype() == DType::kF64 ? DType::kF64 : DType::kF32) {
    for (int64_t d = 0; d < shape_->rank(); ++d) {
      if (d == feature_) continue;
      summed_.push_back(d);
      count_ *= static_cast<double>(shape_->dim(d));
      const AxisList& axes = layout->axes(d);
      summed_axes_.insert(summed_axes_.end(), axes.begin(), axes.end());
    }
    vector_layout_ = rule.layouts().WithDims(layout, {layout->axes(feature_)});
  }

  const MeshLayout* vector_layout() const { return vector_layout_; }
  double count() const { return count_; }

  Instruction* Full(int64_t operand) {
    Instruction* local = builder_.Convert(rule_.Operand(operand, layout_), wide_);
    dims_.assign(local->shape()->dims().begin(), local->shape()->dims().end());
    return local;
  }
  Instruction* Vector(int64_t operand) {
    return builder_.Convert(rule_.Operand(operand, vector_layout_), wide_);
  }
  Instruction* Spread(Instruction* vector) {
    const int64_t to[] = {feature_};
    return builder_.Broadcast(vector, dims_, to);
  }
  Instruction* Op(Opcode opcode, Instruction* a, Instruction* b) {
    return builder_.Binary(opcode, a, b);
  }
  Instruction* Scaled(Instruction* x, double factor) {
    Instruction* scalar = builder_.Scalar(wide_, factor);
    return Op(Opcode::kMultiply, x, builder_.BroadcastScalar(scalar, x->shape()->dims()));
  }
  // Sum over everything but the features, over all devices.
  Instruction* Sum(Instruction* x) {
    Instruction* zero = builder_.Scalar(wide_, 0);
    const Shape* base = rule_.context().WithDType(shape_, wide_);
    x = MaskPadding(rule_.scope(), x, base, layout_, summed_, zero);
    Instruction* sum =
        builder_.Reduce(x, zero, summed_, builder_.BinaryComputation(Opcode::kAdd, wide_));
    return rule_.scope().AllReduce(sum, layout_, summed_axes_, Opcode::kAdd, rule_.Cause());
  }
  // 1 / sqrt(variance + epsilon).
  Instruction* Rate(Instruction* variance) {
    Instruction* epsilon = builder_.Scalar(wide_, rule_.attributes<BatchNormAttributes>().epsilon);
    std::span<const int64_t> dims = variance->shape()->dims();
    Instruction* sum = Op(Opcode::kAdd, variance, builder_.BroadcastScalar(epsilon, dims));
    Instruction* operands[] = {sum};
    return builder_.Add(Opcode::kRsqrt, operands, MathAttributes{});
  }
  PartitionedValue* Result(Instruction* const (&locals)[3]) {
    std::vector<const MeshLayout*> layouts = {layout_, vector_layout_, vector_layout_};
    std::vector<Instruction*> narrow;
    const Shape* shape = rule_.source().shape();
    for (size_t i = 0; i < 3; ++i) {
      narrow.push_back(
          builder_.Convert(locals[i], shape->element(static_cast<int64_t>(i))->dtype()));
    }
    Instruction* tuple = builder_.Tuple(narrow);
    rule_.TakeName(tuple);
    return rule_.scope().NewFromLocal(shape, layouts, tuple);
  }

 private:
  PartitionContext& rule_;
  Builder& builder_;
  const MeshLayout* layout_;
  const Shape* shape_;
  int64_t feature_;
  DType wide_;
  std::vector<int64_t> summed_;
  double count_ = 1;
  AxisList summed_axes_;
  const MeshLayout* vector_layout_ = nullptr;
  std::vector<int64_t> dims_;
};

}  // namespace

RuleResult BatchNorm(PartitionContext& rule) {
  const Shape* shape = rule.operand_shape(0);
  Opcode opcode = rule.source().opcode();
  bool is_inference = opcode == Opcode::kBatchNormInference;
  int64_t feature = rule.attributes<BatchNormAttributes>().feature_index;
  bool is_cut = false;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    is_cut |= d != feature && (IsEverCut(*rule.operand(0), d) || rule.wanted()->IsSharded(d));
  }
  if (is_inference || !is_cut || shape->rank() == 1 || shape->element_count() == 0) {
    return rule.ByLabels(BatchNormLabels(rule, is_inference));
  }
  Strategy strategy = rule.Choose(BatchNormLabels(rule, /*cut_others=*/true));
  const MeshLayout* layout = strategy.operands[0];
  Statistics at(rule, layout);
  double share = 1 / at.count();
  if (opcode == Opcode::kBatchNormTraining) {
    Instruction* x = at.Full(0);
    Instruction* mean = at.Scaled(at.Sum(x), share);
    Instruction* centred = at.Op(Opcode::kSubtract, x, at.Spread(mean));
    Instruction* variance = at.Scaled(at.Sum(at.Op(Opcode::kMultiply, centred, centred)), share);
    Instruction* rate = at.Op(Opcode::kMultiply, at.Rate(variance), at.Vector(1));
    Instruction* y = at.Op(Opcode::kMultiply, centred, at.Spread(rate));
    y = at.Op(Opcode::kAdd, y, at.Spread(at.Vector(2)));
    return at.Result({y, mean, variance});
  }
  // Operands: x, scale, mean, variance, gradient of y. docs/semantics.md, "Linear algebra".
  Instruction* x = at.Full(0);
  Instruction* gradient = at.Full(4);
  Instruction* centred = at.Op(Opcode::kSubtract, x, at.Spread(at.Vector(2)));
  Instruction* rate = at.Rate(at.Vector(3));
  Instruction* d_offset = at.Sum(gradient);
  Instruction* d_scale =
      at.Op(Opcode::kMultiply, at.Sum(at.Op(Opcode::kMultiply, gradient, centred)), rate);
  Instruction* slope = at.Scaled(at.Op(Opcode::kMultiply, rate, d_scale), share);
  Instruction* dx = at.Op(Opcode::kSubtract, gradient, at.Spread(at.Scaled(d_offset, share)));
  dx = at.Op(Opcode::kSubtract, dx, at.Op(Opcode::kMultiply, centred, at.Spread(slope)));
  dx = at.Op(Opcode::kMultiply, dx, at.Spread(at.Op(Opcode::kMultiply, rate, at.Vector(1))));
  return at.Result({dx, d_scale, d_offset});
}

}  // namespace gshard::partition_rules
