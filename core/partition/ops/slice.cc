// Slices, pads, concatenations: dims that are taken whole may be cut.
#include <algorithm>

#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

// One label per dim, shared by operand and result; dims that `touched` names are whole.
template <typename Touched>
Labels PointwiseExcept(RuleContext& rule, int64_t array_operands, Touched touched) {
  int64_t rank = rule.source().shape()->rank();
  Labels labels = Labels::Pointwise(array_operands, rank);
  for (int64_t d = 0; d < rank; ++d) {
    if (!touched(d)) continue;
    auto at = static_cast<size_t>(d);
    for (std::vector<int>& dims : labels.operands) dims[at] = Labels::kWhole;
    labels.results[0][at] = Labels::kWhole;
  }
  labels.operands.resize(rule.operands().size());  // scalars
  return labels;
}

}  // namespace

RuleResult Slice(RuleContext& rule) {
  const auto& slice = rule.attributes<SliceAttributes>();
  const Shape* from = rule.operand_shape(0);
  Strategy strategy = rule.Choose(PointwiseExcept(
      rule, 1, [&](int64_t d) { return from->dim(d) != rule.source().shape()->dim(d); }));
  std::vector<int64_t> limits(slice.limits.begin(), slice.limits.end());
  for (int64_t d = 0; d < from->rank(); ++d) {
    auto at = static_cast<size_t>(d);
    if (from->dim(d) == rule.source().shape()->dim(d)) {
      limits[at] = CeilOfRatio(from->dim(d), strategy.operands[0]->Count(d));
    }
  }
  Instruction* operand = rule.Operand(0, strategy.operands[0]);
  Instruction* local = rule.builder().Slice(operand, slice.starts, limits, slice.strides);
  if (local != operand) rule.TakeName(local);
  return rule.Result(local, strategy.results[0]);
}

RuleResult Pad(RuleContext& rule) {
  auto padding = rule.attributes<PadAttributes>().padding;
  return rule.ByLabels(PointwiseExcept(rule, 1, [&](int64_t d) {
    const PadDim& pad = padding[static_cast<size_t>(d)];
    return pad.low != 0 || pad.high != 0 || pad.interior != 0;
  }));
}

RuleResult Concatenate(RuleContext& rule) {
  int64_t dim = rule.attributes<DimensionsAttributes>().dimensions[0];
  return rule.ByLabels(PointwiseExcept(rule, static_cast<int64_t>(rule.operands().size()),
                                       [&](int64_t d) { return d == dim; }));
}

RuleResult Reverse(RuleContext& rule) {
  Dims dims = rule.attributes<DimensionsAttributes>().dimensions;
  return rule.ByLabels(PointwiseExcept(
      rule, 1, [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }));
}

RuleResult DynamicSlice(RuleContext& rule) {
  const auto& slice = rule.attributes<DynamicSliceAttributes>();
  const Shape* from = rule.operand_shape(0);
  Labels labels = PointwiseExcept(rule, 1, [&](int64_t d) {
    return from->dim(d) != slice.slice_sizes[static_cast<size_t>(d)];
  });
  for (size_t i = 1; i < rule.operands().size(); ++i) {  // one vector of starts, or scalars
    labels.operands[i].assign(static_cast<size_t>(rule.operands()[i]->shape->rank()),
                              Labels::kWhole);
  }
  Strategy strategy = rule.Choose(labels);
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    locals.push_back(rule.Operand(static_cast<int64_t>(i), strategy.operands[i]));
  }
  const Shape* shape = LocalShape(rule.context(), rule.source().shape(), strategy.results[0]);
  DynamicSliceAttributes local_slice{rule.builder().Copy(shape->dims())};
  Instruction* local = rule.builder().Add(Opcode::kDynamicSlice, locals, local_slice, shape);
  rule.TakeName(local);
  return rule.Result(local, strategy.results[0]);
}

RuleResult DynamicUpdateSlice(RuleContext& rule) {
  const Shape* to = rule.source().shape();
  const Shape* update = rule.operand_shape(1);
  Labels labels = PointwiseExcept(rule, 2, [&](int64_t d) { return to->dim(d) != update->dim(d); });
  for (size_t i = 2; i < rule.operands().size(); ++i) {
    labels.operands[i].assign(static_cast<size_t>(rule.operands()[i]->shape->rank()),
                              Labels::kWhole);
  }
  return rule.ByLabels(labels);
}

// Shapes are static here: the answer is that of the whole value.
RuleResult GetDimensionSize(RuleContext& rule) {
  int64_t dim = rule.attributes<DimensionsAttributes>().dimensions[0];
  const Shape* from = rule.operand_shape(0);
  if (from->IsDynamic(dim)) return rule.Default();
  Instruction* size = rule.builder().ScalarInt(DType::kS32, from->dim(dim));
  rule.TakeName(size);
  return rule.Result(size, rule.Whole(0));
}

}  // namespace gshard::partition_rules
