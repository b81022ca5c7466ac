// Scatters that add to what was added up before them.
//
// The gradient of a table that a step uses twice, as a tied embedding, is a sum of two. Whoever
// writes it with `first.at[words].add(rows)`, or takes it from `gshard-opt grad`, makes the first
// gradient the operand of the scatter that adds the second:
//
//   gradient = scatter(first, words, rows), to_apply=add
//   gradient = add(first, scatter(zeros, words, rows), to_apply=add)
//
// Of a micro-batch's words the first form needs what the whole batch has made of `first`. The
// second is a sum of two sums over the examples, which micro-batches add up one by one.
#ifndef GSHARD_CORE_PIPELINE_SCATTER_TERMS_H_
#define GSHARD_CORE_PIPELINE_SCATTER_TERMS_H_

#include "ir/module.h"

namespace gshard::pipeline {

// Gives scatters of the first form the second, in loops and branches, too; those that take a
// maximum, a minimum or a product alike. Constant operands stay. Calls must be inlined.
void SeparateScatterTerms(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_SCATTER_TERMS_H_
