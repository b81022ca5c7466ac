// All-gathers of examples: rows of all micro-batches, put together.
//
// Behind the micro-batches, or before them where examples alone decide the rows, the whole is
// known. It is a sum then, of arrays of the whole's shape in which all but the rows of one
// micro-batch are zeros:
//
//   all-gather(x)
//   all-reduce(dynamic-update-slice(zeros, x, the number of the micro-batch times its rows))
//
// Example: keys of the batch that a memory bank takes in; ranks of rewards.
#ifndef GSHARD_CORE_PIPELINE_PLAN_ROW_GATHERS_H_
#define GSHARD_CORE_PIPELINE_PLAN_ROW_GATHERS_H_

#include <unordered_set>

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Writes the all-gathers in the entry of a program of one micro-batch so, but those whose rows
// return to single examples that weights have met. `shards`: of the batch, each with micro-batches
// of its own.
void SumGatheredRows(Module& module, const BatchDims& batch, int64_t microbatches, int64_t shards);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_ROW_GATHERS_H_
