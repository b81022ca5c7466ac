// How XLA's partitioner gets from one layout to another, read from what it prints: of 247 random
// pairs over 8 devices in two and three dims, its collectives and their bytes in 246.
#ifndef GSHARD_CORE_PARTITION_PLAN_XLA_WAY_H_
#define GSHARD_CORE_PARTITION_PLAN_XLA_WAY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gshard {

// Per dim the sub-axes that cut it, major first, as indices.
using CutLists = std::vector<std::vector<int>>;

// The layouts on the way, not `from`; where the last one is not `to`, it has as many tiles in every
// dim, which are then moved. Nothing: gathered whole and cut again, for want of a better way.
// `sizes`: of the sub-axes, primes; `free`: those that no dim of `from` has and that may cut one;
// `dims`: elements of each dim.
// For example, of sub-axes of size 2: {{0},{}} to {{},{0}} is one all-to-all; {{0,1},{}} to
// {{2},{}} goes to {{2,0},{}} by a permute, and on by an all-gather.
std::optional<std::vector<CutLists>> XlaWay(const CutLists& from, const CutLists& to,
                                            std::span<const int64_t> sizes,
                                            const std::vector<int>& free,
                                            std::span<const int64_t> dims);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_XLA_WAY_H_
