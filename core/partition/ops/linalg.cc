// Cholesky and triangular-solve: local on batch dims and on the columns (rows) that are solved
// for; whole matrices.
#include "core/partition/ops/rules.h"
#include "core/partition/scope/moving_tiles.h"

namespace gshard::partition_rules {

RuleResult MatrixOnBatch(PartitionContext& rule) {
  int64_t rank = rule.source().shape()->rank();
  Labels labels = Labels::Pointwise(static_cast<int64_t>(rule.operands().size()), rank);
  auto row = static_cast<size_t>(rank) - 2;
  auto column = static_cast<size_t>(rank) - 1;
  for (std::vector<int>& dims : labels.operands) dims[row] = dims[column] = Labels::kWhole;
  labels.results[0][row] = labels.results[0][column] = Labels::kWhole;
  if (rule.source().opcode() == Opcode::kTriangularSolve) {
    size_t free = rule.attributes<TriangularSolveAttributes>().left_side ? column : row;
    labels.operands[1][free] = labels.results[0][free] = labels.Add();
  }
  int64_t size = rule.operand_shape(0)->dim(rank - 1);
  labels.flops =
      static_cast<double>(rule.source().shape()->element_count()) * static_cast<double>(size);
  return ByLabelsMovingTiles(rule, labels);
}

}  // namespace gshard::partition_rules
