// Dots by cost: each mesh digit cuts a batch, row, column or contracting label, or none.
#include <algorithm>

#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

bool Contains(Dims dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

}  // namespace

RuleResult Dot(PartitionContext& rule) {
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

  const Strategy& strategy = rule.Choose(labels);
  Instruction* locals[2];
  for (int64_t i = 0; i < 2; ++i) {
    const MeshLayout* layout = strategy.operands[static_cast<size_t>(i)];
    const Shape* shape = rule.operand_shape(i);
    Dims contracting = i == 0 ? dot.lhs_contracting : dot.rhs_contracting;
    Instruction* local = rule.Operand(i, layout);
    if (!DividesEvenly(shape, layout)) {
      Instruction* zero = rule.geometry().Number(shape->dtype(), 0);
      local = MaskPadding(rule.scope(), local, shape, layout, contracting, zero);
    }
    locals[i] = local;
  }
  return rule.Emit(locals, strategy.results);
}

}  // namespace gshard::partition_rules
