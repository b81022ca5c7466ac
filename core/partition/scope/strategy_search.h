// The search for the cheapest strategy of an operation (docs/partitioning.md, "Choosing a
// strategy"): what the operands and the wanted results suggest first, then combinations of roles.
#ifndef GSHARD_CORE_PARTITION_SCOPE_STRATEGY_SEARCH_H_
#define GSHARD_CORE_PARTITION_SCOPE_STRATEGY_SEARCH_H_

#include <cstddef>
#include <span>

#include "core/partition/scope/strategy.h"

namespace gshard {

// What a StrategyTable remembers. Arguments as of StrategyTable::Choose.
Strategy CheapestStrategy(PartitionScope& scope, const Labels& labels,
                          std::span<PartitionedValue* const> operands,
                          std::span<const Shape* const> results,
                          std::span<const MeshLayout* const> wanted);

// Index of the first operand that is the same value as operand `i`, of the 16 before it; `i` if
// none is.
size_t FirstOfSame(std::span<PartitionedValue* const> operands, size_t i);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_STRATEGY_SEARCH_H_
