#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Transpose(PartitionContext& rule) {
  Dims permutation = rule.attributes<DimensionsAttributes>().dimensions;
  Labels labels = Labels::Pointwise(1, rule.source().shape()->rank());
  for (size_t i = 0; i < permutation.size(); ++i) {
    labels.results[0][i] = labels.operands[0][static_cast<size_t>(permutation[i])];
  }
  return rule.ByLabels(labels);
}

}  // namespace gshard::partition_rules
