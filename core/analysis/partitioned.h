// Is a module already the program of one device?
#ifndef GSHARD_CORE_ANALYSIS_PARTITIONED_H_
#define GSHARD_CORE_ANALYSIS_PARTITIONED_H_

#include <string_view>

#include "ir/module.h"

namespace gshard {

// Frontend attributes of the header that the partitioner leaves as its record.
inline constexpr std::string_view kNumPartitionsAttribute = "gshard.num_partitions";
inline constexpr std::string_view kOutputShardingsAttribute = "gshard.output_shardings";

// Has the partitioner left its record?
bool HasPartitionRecord(const Module& module);
// True if the module has the partitioner's record, or a cross-partition collective (with
// channel_id) while nothing marks manual regions.
bool IsPartitioned(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARTITIONED_H_
