// Cholesky and triangular-solve: local on batch dims, whole matrices.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult MatrixOnBatch(RuleContext& rule) {
  int64_t rank = rule.source().shape()->rank();
  Labels labels = Labels::Pointwise(static_cast<int64_t>(rule.operands().size()), rank);
  auto make_whole = [&](std::vector<int>& dims) {
    dims[static_cast<size_t>(rank) - 1] = dims[static_cast<size_t>(rank) - 2] = Labels::kWhole;
  };
  for (std::vector<int>& dims : labels.operands) make_whole(dims);
  make_whole(labels.results[0]);
  return rule.ByLabels(labels);
}

}  // namespace gshard::partition_rules
