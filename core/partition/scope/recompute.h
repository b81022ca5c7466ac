// Elementwise values computed again in another layout, where their operands are there already
// (docs/partitioning.md, "Values").
#ifndef GSHARD_CORE_PARTITION_SCOPE_RECOMPUTE_H_
#define GSHARD_CORE_PARTITION_SCOPE_RECOMPUTE_H_

#include "core/partition/scope/partition_scope.h"

namespace gshard {

// Is it cheaper to compute `value` again in `layout` than `bytes`? Everything that this takes is at
// hand there, is needed there anyway, or can be computed again as well.
bool IsCheaperToRecompute(PartitionScope& scope, const PartitionedValue& value,
                          const MeshLayout* layout, double bytes);

// The layout that an operand of an elementwise operation is needed in for a result in `layout`.
const MeshLayout* LayoutOfOperand(PartitionScope& scope, const PartitionedValue& operand,
                                  const MeshLayout* layout);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_RECOMPUTE_H_
