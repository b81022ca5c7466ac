// Sorts and top-k: local on every dim but the sorted one.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Sort(RuleContext& rule) {
  auto dim = static_cast<size_t>(rule.attributes<SortAttributes>().dimension);
  auto count = static_cast<int64_t>(rule.operands().size());
  Labels labels = Labels::Pointwise(count, rule.operand_shape(0)->rank());
  for (std::vector<int>& dims : labels.operands) dims[dim] = Labels::kWhole;
  labels.results.assign(static_cast<size_t>(count), labels.operands[0]);
  return rule.ByLabels(labels);
}

RuleResult TopK(RuleContext& rule) {
  Labels labels = Labels::Pointwise(1, rule.operand_shape(0)->rank());
  labels.operands[0].back() = Labels::kWhole;
  labels.operands.resize(rule.operands().size());
  labels.results.assign(static_cast<size_t>(rule.source().shape()->leaf_count()),
                        labels.operands[0]);
  return rule.ByLabels(labels);
}

}  // namespace gshard::partition_rules
