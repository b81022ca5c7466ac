// What the partitioner leaves in the header of a per-device program: how the shards of parameters
// and results form whole arrays (docs/partitioning.md, "What comes out").
#ifndef GSHARD_CORE_ANALYSIS_PARTITION_RECORD_H_
#define GSHARD_CORE_ANALYSIS_PARTITION_RECORD_H_

#include <vector>

#include "ir/module.h"

namespace gshard {

// Is an array of shape `local` a shard of one of shape `whole` that `sharding` cuts (null: not)?
// Shapes may be of two contexts. What is no array is a shard of anything.
bool IsShardOf(const Shape* local, const Sharding* sharding, const Shape* whole);

// The shardings of the result's leaves that `text` says, such as "{{replicated},
// {devices=[2]<=[2]}}". Errors: E-RUN-RECORD, where it is no sharding, or none of such a result on
// the module's devices.
Expected<std::vector<const Sharding*>> ParseOutputShardings(const Module& module,
                                                            std::string_view text);

// The same of what the header says; empty if the header has none. Errors: E-RUN-RECORD.
Expected<std::vector<const Sharding*>> RecordedOutputShardings(const Module& module);

// Whole shapes of leaves; empty where the header does not tell, which is also where the program has
// got other parameters or results since it was partitioned.
struct WholeShapes {
  std::vector<const Shape*> parameters, results;
};
// Errors: E-RUN-RECORD, of a record that cannot be read, or whose shapes do not have the program's
// as their shards.
Expected<WholeShapes> RecordedWholeShapes(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_PARTITION_RECORD_H_
