// Rows of micro-batches where the batch is cut over a mesh axis besides.
//
// Micro-batch j holds the j-th part of each shard's rows: of D shards and M micro-batches, row
// (j, s, i) of the split batch is row (s, j, i) of the whole. Examples are read so
// (MicrobatchRows); values that know the number of a row, and are not made of examples, have to
// follow: iotas, constants, random numbers, and weights with a row for each example.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_
#define GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_

#include <cstdint>

#include "core/pipeline/plan/manual_regions.h"
#include "ir/builder.h"
#include "ir/module.h"

namespace gshard::pipeline {

// How rows are counted along a dim: in `parts` parts, one after another, of which each micro-batch
// has its share. Row (part, micro-batch, i) becomes row (micro-batch, part, i).
struct RowOrder {
  int64_t dimension = 0;
  int64_t microbatches = 1, parts = 1;  // their product divides the dim
};

// The rows of `x` in that order. What is made on the way gets the sharding `each`, if it is given.
Instruction* OrderRows(Builder& b, Instruction* x, const RowOrder& order,
                       const Sharding* each = nullptr);
// The same of an iota along the dim, by arithmetic: each micro-batch can compute its own rows.
Instruction* OrderIota(Builder& b, const Instruction* iota, const RowOrder& order,
                       const Sharding* each = nullptr);

// Of a propagated module, whose shardings cut batch dims into `microbatches` tiles: such values get
// their rows in the order of the split batch. In manual regions, which cut the batch into `parts`,
// they know the rows of one of these.
void FollowShards(Module& module, int64_t microbatches, int64_t shards,
                  const ManualRegions& regions, int64_t parts);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_SHARD_ROWS_H_
