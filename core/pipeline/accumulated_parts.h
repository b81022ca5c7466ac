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

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Returns the step with the body of each such loop in its place, once, for all of its examples;
// null: there is none. A loop is one if it is counted and of the entry, takes the rows of arrays
// that are made of examples alone, only adds to what it carries, or stacks what is added up behind
// it, and needs its counter for nothing else. What a part adds is marked: whether it is a sum over
// examples is known once the batch is split (CheckPartSums). Calls must be inlined.
std::unique_ptr<Module> MergeAccumulatedParts(const Module& module, const BatchDims& batch);

// Of the program of one micro-batch of a merged step: removes the marks, and multiplies what each
// part adds of no examples, such as a decay of weights, by the number of parts. Errors:
// E-PIPELINE-003 at what is not linear in sums over examples, such as a mean over the unmasked
// words of a part.
Expected<void> CheckPartSums(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ACCUMULATED_PARTS_H_
