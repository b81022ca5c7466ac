// Dots by cost: each mesh sub-axis cuts a batch, row, column or contracting label, or none.
#include <algorithm>

#include "core/partition/ops/rules.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

Labels LabelsOf(PartitionContext& rule) {
  const auto& dot = rule.attributes<DotAttributes>();
  const Shape* lhs = rule.operand_shape(0);
  const Shape* rhs = rule.operand_shape(1);
  Labels labels;
  labels.operands = {std::vector<int>(static_cast<size_t>(lhs->rank())),
                     std::vector<int>(static_cast<size_t>(rhs->rank()))};
  labels.results.emplace_back();
  auto at = [&](int operand, int64_t dim) -> int& {
    return labels.operands[static_cast<size_t>(operand)][static_cast<size_t>(dim)];
  };
  labels.flops = 2;
  for (size_t i = 0; i < dot.lhs_batch.size(); ++i) {
    int label = labels.Add();
    at(0, dot.lhs_batch[i]) = at(1, dot.rhs_batch[i]) = label;
    labels.results[0].push_back(label);
  }
  for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
    at(0, dot.lhs_contracting[i]) = at(1, dot.rhs_contracting[i]) = labels.Add({.summed = true});
    labels.flops *= static_cast<double>(lhs->dim(dot.lhs_contracting[i]));
  }
  for (int64_t d = 0; d < lhs->rank(); ++d) {
    if (Contains(dot.lhs_batch, d) || Contains(dot.lhs_contracting, d)) continue;
    labels.results[0].push_back(at(0, d) = labels.Add());
  }
  for (int64_t d = 0; d < rhs->rank(); ++d) {
    if (Contains(dot.rhs_batch, d) || Contains(dot.rhs_contracting, d)) continue;
    labels.results[0].push_back(at(1, d) = labels.Add());
  }
  labels.flops *= static_cast<double>(rule.source().shape()->element_count());

  return labels;
}

// Operand i where the strategy has it, with the padding of its contracted dims zero.
Instruction* Factor(PartitionContext& rule, int64_t i, const MeshLayout* layout, Dims contracting) {
  const Shape* shape = rule.operand_shape(i);
  Instruction* local = rule.Operand(i, layout);
  if (DividesEvenly(shape, layout)) return local;
  Instruction* zero = rule.geometry().Number(shape->dtype(), 0);
  return MaskPadding(rule.scope(), local, shape, layout, contracting, zero);
}

// The scale of an operand has as many blocks per dim as its shape says: of one element (cut as the
// operand is), of several (cut between blocks), or one block (whole).
void AddScale(PartitionContext& rule, int64_t i, Labels& labels) {
  const Shape* scaled = rule.operand_shape(i);
  const Shape* scale = rule.operand_shape(i + 2);
  std::vector<int>& dims = labels.operands.emplace_back();
  for (int64_t d = 0; d < scale->rank(); ++d) {
    int label = labels.operands[static_cast<size_t>(i)][static_cast<size_t>(d)];
    if (scale->dim(d) == 1 && scaled->dim(d) != 1) label = Labels::kWhole;
    dims.push_back(label);
    if (label == Labels::kWhole) continue;
    // Scales in the padding of contracted dims could not be masked: their types may lack a zero.
    Labels::Label& kind = labels.labels[static_cast<size_t>(label)];
    kind.divides |= kind.summed || scale->dim(d) != scaled->dim(d);
  }
}

}  // namespace

RuleResult Dot(PartitionContext& rule) {
  const auto& dot = rule.attributes<DotAttributes>();
  const Strategy& strategy = rule.Choose(LabelsOf(rule));
  Instruction* locals[] = {Factor(rule, 0, strategy.operands[0], dot.lhs_contracting),
                           Factor(rule, 1, strategy.operands[1], dot.rhs_contracting)};
  PartitionedValue* value = rule.Emit(locals, strategy.results);
  rule.ShareMove(strategy, *value);
  return value;
}

RuleResult ScaledDot(PartitionContext& rule) {
  const auto& dot = rule.attributes<DotAttributes>();
  Labels labels = LabelsOf(rule);
  for (int64_t i = 0; i < 2; ++i) AddScale(rule, i, labels);
  const Strategy& strategy = rule.Choose(labels);
  Instruction* locals[] = {Factor(rule, 0, strategy.operands[0], dot.lhs_contracting),
                           Factor(rule, 1, strategy.operands[1], dot.rhs_contracting),
                           rule.Operand(2, strategy.operands[2]),
                           rule.Operand(3, strategy.operands[3])};
  return rule.Emit(locals, strategy.results);
}

}  // namespace gshard::partition_rules
