// Rows that a gather leaves with the devices whose tiles of the table have them.
//
// Of a table cut by row, a device finds the rows that lie in its tile. To have all of them
// everywhere, rows are added up over the devices, or the table is gathered. Neither is needed where
// what is made of each row is smaller, or is added up over the rows: the devices go on with their
// own rows, anything in the place of the others', and what is combined in the end, zero there, is
// less. For example,
// the experts of a mixture, w1[experts] and w2[experts], are multiplied where they are; one sum per
// token is left to be added up.
#ifndef GSHARD_CORE_PARTITION_SCOPE_OWN_ROWS_H_
#define GSHARD_CORE_PARTITION_SCOPE_OWN_ROWS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/partition/scope/op_rule.h"

namespace gshard {

// What an operation does with rows.
struct RowFlow {
  bool sums = false;            // it adds them up
  std::vector<int64_t> result;  // else: which of the result's dims they are
  // A reshape: the rows are other dims now, or parts of rows, which have the row's owner.
  bool regroups = false;
  // Which dims of each operand they are; none where it lacks some.
  std::vector<std::vector<int64_t>> operands;
};

// How `x` takes rows, `rows[i]` being those dims of operand i, or null if it has none (and is the
// same on all devices). Nothing: it needs all rows.
std::optional<RowFlow> FlowOfRows(const Instruction& x,
                                  std::span<const std::vector<int64_t>* const> rows);

// The owners of what a reshape that regroups makes of rows, whose owners are `owners`; the same
// object for rows that are regrouped alike.
PartitionedValue* RegroupedOwners(PartitionContext& rule, PartitionedValue* owners,
                                  std::span<const int64_t> rows, const RowFlow& flow);

// Rows of a gather: which dims of the result they are, and the sub-axes that cut the table's rows.
struct GatheredRows {
  std::vector<int64_t> dims;
  AxisList tiles;
  const PartitionedValue* owners = nullptr;  // PartitionedValue::own_rows, if other rows have it
};

// The strategy that leaves the gather's rows with their devices, where what is received then, and
// repeated, costs less than by the strategy `usual`; else null. Decides which operations go on with
// such rows.
const Strategy* StrategyForOwnRows(PartitionContext& rule, const Labels& labels,
                                   const GatheredRows& rows, const Strategy& usual);

// Does an operation add up the rows that `x` makes? It reads them with zero for those of others.
bool AreSummed(PartitionScope& scope, const Instruction& x);

// The partial layout in which the result of an operation on such rows is to be left; null: they are
// combined before.
const MeshLayout* LayoutFromOwnRows(PartitionContext& rule);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_OWN_ROWS_H_
