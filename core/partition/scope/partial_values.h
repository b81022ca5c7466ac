// Operations whose result is wanted partial (its sharding says unreduced) and that may as well be
// done on partial operands: copies and moves, sums, products with values that are not partial. The
// sub-axes along which values are partial are hidden from the operation's rule as if they were
// manual, so that any rule works and none touches them.
#ifndef GSHARD_CORE_PARTITION_SCOPE_PARTIAL_VALUES_H_
#define GSHARD_CORE_PARTITION_SCOPE_PARTIAL_VALUES_H_

#include <optional>
#include <span>

#include "core/partition/scope/op_rule.h"

namespace gshard {

bool IsPartial(std::span<const MeshLayout* const> leaves);

// `layout` with those dims whole that are cut by a sub-axis of `axes`, and nothing unreduced.
const MeshLayout* WithoutAxes(MeshLayoutTable& layouts, const MeshLayout& layout,
                              const AxisList& axes);

// The source's rule where some layouts wanted are partial. What is not linear, or has no partial
// operand, is computed on combined values; a result is taken apart when it is needed so.
RuleResult RunWantedPartial(PartitionContext& rule, OpRule op);

// The same where the result is not wanted partial, but is to be combined only behind this
// operation: it adds up two such values, begins a chain that makes half or less of one, or goes on
// with rows that a gather has left with the devices that own them (own_rows.h). Nothing: not so.
std::optional<RuleResult> RunBeforeCombining(PartitionContext& rule, OpRule op);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PARTIAL_VALUES_H_
