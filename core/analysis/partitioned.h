// Is a module already the program of one device?
#ifndef GSHARD_CORE_ANALYSIS_PARTITIONED_H_
#define GSHARD_CORE_ANALYSIS_PARTITIONED_H_

#include <string_view>

#include "ir/module.h"

namespace gshard {

// Frontend attributes of the header that the partitioner leaves as its record.
inline constexpr std::string_view kNumPartitionsAttribute = "gshard.num_partitions";
inline constexpr std::string_view kOutputShardingsAttribute = "gshard.output_shardings";
// Shapes of the whole parameters, as a tuple, and of the whole result: shards do not tell them
// where tiles do not divide a dim.
inline constexpr std::string_view kParameterShapesAttribute = "gshard.parameter_shapes";
inline constexpr std::string_view kOutputShapesAttribute = "gshard.output_shapes";
// Of a collective: what it was inserted for, in words or the name of the instruction that needs it.
inline constexpr std::string_view kCauseAttribute = "gshard.cause";

// Has the partitioner left its record?
bool HasPartitionRecord(const Module& module);
// XLA's text after its partitioner, even without a collective: nothing marks manual regions, it is
// for several partitions, and it is scheduled or its entry is called .._spmd.
bool IsCompiledByXla(const Module& module);
// True if the module has the partitioner's record, is compiled by XLA, or, while nothing marks
// manual regions, has a cross-partition collective (with channel_id) or, for several partitions,
// partition-id.
bool IsPartitioned(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARTITIONED_H_
