// Parts of the batch that a program writes out one by one, as a loop of Python's does.
//
//   total = gradient(weights, words[0:8]) + gradient(weights, words[8:16]) + ..
//   total = while(i < 4) { total + gradient(weights, words[8 i : 8 i + 8]) }
//
// The second form is what accumulated_parts.h takes as one batch.
#ifndef GSHARD_CORE_PIPELINE_UNROLLED_PARTS_H_
#define GSHARD_CORE_PIPELINE_UNROLLED_PARTS_H_

#include <memory>

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// Returns the step with a loop in the place of the parts; null: there are none, they do not compute
// the same, or more becomes of their results than sums over them, or rows of one array. Parts are
// equal slices of examples; what follows from one of them alone, and what that needs, is compared
// from the sums up. Constants may differ, such as a part's number. Calls must be inlined. Linear in
// the entry.
std::unique_ptr<Module> RollUnrolledParts(const Module& module, const BatchDims& batch);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_UNROLLED_PARTS_H_
