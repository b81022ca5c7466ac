// Parts of arrays: adjoints go where the elements came from.
//
//   slice        pad with zeros              pad           slice, and the rest for the value
//   concatenate  slices                      reverse       reverse
//   dynamic-slice: added in place            dynamic-update-slice: a slice, and zeros over it

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradSlice(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& slice = x->attributes<SliceAttributes>();
  std::vector<PadDim> padding;
  for (size_t d = 0; d < slice.starts.size(); ++d) {
    const int64_t size = x->shape()->dims()[d];
    const int64_t spread = size == 0 ? 0 : (size - 1) * slice.strides[d] + 1;
    padding.push_back({slice.starts[d],
                       x->operand(0)->shape()->dims()[d] - slice.starts[d] - spread,
                       slice.strides[d] - 1});
  }
  scope.Add(x->operand(0), b.Pad(adjoints[0], b.Scalar(x->shape()->dtype(), 0), padding));
  return {};
}

Expected<void> GradPad(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  std::vector<PadDim> edges;
  std::vector<int64_t> strides, limits;
  const std::vector<int64_t> starts(At(x->shape()->rank()), 0);
  for (const PadDim& dim : x->attributes<PadAttributes>().padding) {
    edges.push_back({-dim.low, -dim.high, 0});
    strides.push_back(dim.interior + 1);
  }
  // What was cut off by negative padding comes back as zeros.
  Instruction* inner = b.Pad(adjoints[0], b.Scalar(x->shape()->dtype(), 0), edges);
  limits.assign(inner->shape()->dims().begin(), inner->shape()->dims().end());
  inner = b.Slice(inner, starts, limits, strides);
  scope.Add(x->operand(0), inner);
  if (scope.Wants(x->operand(1))) {
    scope.Add(x->operand(1), e.Sub(e.SumAll(adjoints[0]), e.SumAll(inner)));
  }
  return {};
}

Expected<void> GradConcatenate(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const int64_t dimension = x->attributes<DimensionsAttributes>().dimensions[0];
  int64_t start = 0;
  for (Instruction* operand : x->operands()) {
    const int64_t limit = start + operand->shape()->dim(dimension);
    if (scope.Wants(operand)) {
      scope.Add(operand, scope.builder().SliceDim(adjoints[0], dimension, start, limit));
    }
    start = limit;
  }
  return {};
}

Expected<void> GradReverse(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  scope.Add(x->operand(0), scope.builder().CloneWith(x, adjoints, adjoints[0]->shape()));
  return {};
}

Expected<void> GradDynamicSlice(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  Instruction* operand = x->operand(0);
  std::vector<Instruction*> starts;
  for (int64_t i = 1; i < x->operand_count(); ++i) starts.push_back(scope.Value(x->operand(i)));
  Instruction* part = adjoints[0];
  Instruction* sum = scope.Adjoint(operand);
  if (sum == nullptr) {
    sum = b.Zero(operand->shape()->bare());
  } else {
    part = b.Add(b.DynamicSlice(sum, starts, x->shape()->dims()), part);
  }
  scope.SetAdjoint(operand, b.DynamicUpdateSlice(sum, part, starts));
  return {};
}

Expected<void> GradDynamicUpdateSlice(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  std::vector<Instruction*> starts;
  for (int64_t i = 2; i < x->operand_count(); ++i) starts.push_back(scope.Value(x->operand(i)));
  const Shape* update = x->operand(1)->shape();
  if (scope.Wants(x->operand(1))) {
    scope.Add(x->operand(1), b.DynamicSlice(adjoints[0], starts, update->dims()));
  }
  if (scope.Wants(x->operand(0))) {
    scope.Add(x->operand(0), b.DynamicUpdateSlice(adjoints[0], b.Zero(update->bare()), starts));
  }
  return {};
}

// Elements beyond the size count nowhere.
Expected<void> GradSetDimensionSize(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const int64_t dimension = x->attributes<DimensionsAttributes>().dimensions[0];
  const Shape* shape = x->operand(0)->shape()->bare();
  Instruction* c = adjoints[0];
  if (c->shape()->bare() != shape) {
    const int64_t bound = shape->dim(dimension);
    Instruction* operands[] = {c, b.ScalarInt(DType::kS32, bound)};
    c = b.Add(Opcode::kSetDimensionSize, operands, x->attributes<DimensionsAttributes>(), shape);
  }
  Instruction* position = b.Iota(b.context().WithDType(shape, DType::kS32), dimension);
  Instruction* size = b.Convert(scope.Value(x->operand(1)), DType::kS32);
  const Emit e(b);
  scope.Add(x->operand(0), e.Where(e.Less(position, b.BroadcastScalar(size, shape->dims())), c));
  return {};
}

}  // namespace gshard
