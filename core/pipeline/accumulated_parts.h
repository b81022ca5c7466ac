// Loops that add up gradients over parts of the batch, as `jax.lax.scan` writes them.
//
//   total = while(i < 4) { total + gradient(weights, words[i]) }     words: s32[4,8,128]
//   total = 0 + gradient(weights, all words)                         words: s32[32,128]
//
// A pipeline has micro-batches of its own: such a loop would be one layer of it. Where a part's
// result is a sum over its examples, as gradients are, the parts are taken as one batch.
#ifndef GSHARD_CORE_PIPELINE_ACCUMULATED_PARTS_H_
#define GSHARD_CORE_PIPELINE_ACCUMULATED_PARTS_H_

#include <memory>
#include <optional>

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Returns the step with the body of each such loop in its place, once, for all of its examples;
// null: there is none. A loop is one if it is counted and of the entry, takes the rows of arrays
// that are made of examples alone, only adds to what it carries, or stacks what is added up behind
// it. What else a part has of its own, such as random keys, goes to its rows (part_values.h). What
// a part adds is marked: whether it is a sum over examples is known once the batch is split
// (part_sums.h). `refused`: E-PIPELINE-003 at what keeps such a loop from being taken. Calls must
// be inlined.
std::unique_ptr<Module> MergeAccumulatedParts(const Module& module, const BatchDims& batch,
                                              std::optional<Diagnostic>& refused);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ACCUMULATED_PARTS_H_
