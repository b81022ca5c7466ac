// Several batches in one dim, one after another, as `jnp.concatenate([chosen, rejected])` makes.
//
//   both = f32[32] concatenate(a, b)                                       a, b: f32[16]
//   both = f32[32] reshape(f32[4,8] concatenate(reshape(a), reshape(b)))   of 4 micro-batches
//
// A model that runs once on both, and whose results are compared pair by pair, needs micro-batches
// with a share of each. So the rows of joined batches get the order of micro-batches, from where
// they are joined to where they are taken apart again, by slices and reshapes. What knows the
// number of a row meanwhile without being an example, such as a random mask, follows.
#ifndef GSHARD_CORE_PIPELINE_JOINED_BATCHES_H_
#define GSHARD_CORE_PIPELINE_JOINED_BATCHES_H_

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// True if `module` has joined batches, whose rows have got the order of micro-batches; results are
// what they were. False: it has none. Error, and the module is as it was: something between needs
// the rows in their order, at that instruction. Calls must be inlined; M divides the batch.
Expected<bool> OrderJoinedBatches(Module& module, const BatchDims& batch, int64_t microbatches);

// Is the place of `error` a concatenation of whole batches of `module`?
bool JoinsBatchesAt(const Module& module, const BatchDims& batch, const Diagnostic& error);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_JOINED_BATCHES_H_
