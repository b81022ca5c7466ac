// Rows of micro-batches where the batch is cut over a mesh axis besides.
//
// Micro-batch j holds the j-th part of each shard's rows: of D shards and M micro-batches, row
// (j, s, i) of the split batch is row (s, j, i) of the whole. Examples are read so
// (MicrobatchRows); values that know the number of a row, and are not made of examples, have to
// follow: iotas, constants, random numbers, and weights with a row for each example.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_
#define GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_

#include "core/pipeline/plan/manual_regions.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Of a propagated module, whose shardings cut batch dims into `microbatches` tiles: such values get
// their rows in the order of the split batch. In manual regions, which cut the batch into `parts`,
// they know the rows of one of these.
void FollowShards(Module& module, int64_t microbatches, int64_t shards,
                  const ManualRegions& regions, int64_t parts);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_
