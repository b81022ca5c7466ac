// Layouts for operations that need some dims whole: what cut them may cut another dim meanwhile.
#ifndef GSHARD_CORE_PARTITION_SCOPE_MOVING_TILES_H_
#define GSHARD_CORE_PARTITION_SCOPE_MOVING_TILES_H_

#include "core/partition/scope/op_rule.h"

namespace gshard {

// As PartitionContext::Choose, but sub-axes that cut whole dims (Labels::kWhole) of an operand or
// result may move to a labelled dim: two all-to-alls instead of an all-gather. The results of
// `labels` must have their labels in common.
Strategy ChooseMovingTiles(PartitionContext& rule, const Labels& labels);
// The same for an operation that a rule makes itself; arguments as of ChooseStrategy.
Strategy ChooseMovingTiles(PartitionScope& scope, const Labels& labels,
                           std::span<PartitionedValue* const> operands,
                           std::span<const Shape* const> results,
                           std::span<const MeshLayout* const> wanted);

// ChooseMovingTiles, then the source operation on the operands' tiles.
PartitionedValue* ByLabelsMovingTiles(PartitionContext& rule, const Labels& labels);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_MOVING_TILES_H_
