// FFT: local on the dims that are not transformed.
#include "core/partition/moving_tiles.h"
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Fft(PartitionContext& rule) {
  auto transformed = rule.attributes<FftAttributes>().length.size();
  Labels labels = Labels::Pointwise(1, rule.source().shape()->rank());
  for (size_t i = 1; i <= transformed; ++i) {
    labels.operands[0][labels.operands[0].size() - i] = Labels::kWhole;
    labels.results[0][labels.results[0].size() - i] = Labels::kWhole;
  }
  return ByLabelsMovingTiles(rule, labels);
}

}  // namespace gshard::partition_rules
