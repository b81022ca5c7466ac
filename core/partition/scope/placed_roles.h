// Where XLA's partitioner does an operation: in the layouts that its own sharding and those of its
// operands say, read from what it prints (PartitionPolicies::place_by_cost = false).
#ifndef GSHARD_CORE_PARTITION_SCOPE_PLACED_ROLES_H_
#define GSHARD_CORE_PARTITION_SCOPE_PLACED_ROLES_H_

#include <optional>
#include <span>
#include <vector>

#include "core/partition/scope/strategy.h"

namespace gshard {

// An operand or the result: per dim its label and the sub-axes that cut it, major first.
struct PlacedTensor {
  const std::vector<int>* labels = nullptr;
  std::vector<std::vector<int>> cut;
};

// Per sub-axis the label that it cuts, or Labels::kWhole.
struct PlacedRoles {
  std::vector<int> roles;
  // Where one operand alone has a summed label cut: the roles that leave a sum there, to be taken
  // if that moves no more than gathering the operand.
  std::optional<std::vector<int>> with_sums;
};

// The roles of the result's sharding, but that
// - what all operands have cut alike in a label of all and the result (a batch dim) stays so,
//   unless the result has it elsewhere;
// - what all operands that have a summed label have cut alike in it leaves sums, sub-axes left out
//   that an operand and the result have cut alike in some label. Of 633 random products over 8
//   devices XLA's collectives and bytes follow in 583 from these rules and XlaWay's.
// With labels.placed_by_operands those of the first operand, and the result's in other labels.
// For example, [d, m] x [m, _] to [d, _]: d cuts rows, m is summed; [d, _] x [_, _] to [_, m]: m
// cuts columns, nothing rows.
PlacedRoles RolesWherePlaced(const Labels& labels, const PlacedTensor& result,
                             std::span<const PlacedTensor> operands, size_t sub_axes);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PLACED_ROLES_H_
