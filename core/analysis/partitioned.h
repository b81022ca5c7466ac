// Tells by whom a module was rewritten: whether it is already the program of one device, and
// whether it is pipelined.
#ifndef GSHARD_CORE_ANALYSIS_PARTITIONED_H_
#define GSHARD_CORE_ANALYSIS_PARTITIONED_H_

#include <string_view>

#include "ir/attribute_names.h"
#include "ir/module.h"

namespace gshard {

// True if the partitioner has left its record in the header.
bool HasPartitionRecord(const Module& module);
// True if the module is XLA's text after its partitioner, even without a collective: nothing marks
// manual regions, it is for several partitions, and it is scheduled or its entry is called .._spmd.
// Whether text is compiled at all is another question: IsCompiled (ir/compiled_text.h).
bool IsCompiledByXla(const Module& module);
// True if the module has the partitioner's record, is compiled by XLA, or, while nothing marks
// manual regions, has a cross-partition collective (with channel_id) or, for several partitions,
// partition-id.
bool IsPartitioned(const Module& module);

// True if gshard-opt pipeline made the module: its mesh has one axis more than the graph's.
bool IsPipelined(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARTITIONED_H_
