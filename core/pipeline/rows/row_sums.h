// Gradients of single rows that are added up, each padded with zeros to the whole array.
//
// A loop over layers that Python has unrolled takes each layer's weights by a slice, whose reverse
// is a pad: the gradient of the stacked weights is the sum of as many arrays of all layers.
//
//   add(pad(g0, low=0 high=2), add(pad(g1, low=1 high=1), pad(g2, low=2 high=0)))
//   concatenate(g0, g1, g2)
//
// Each layer's row then belongs to its stage, as where the front end kept the loop.
#ifndef GSHARD_CORE_PIPELINE_ROWS_ROW_SUMS_H_
#define GSHARD_CORE_PIPELINE_ROWS_ROW_SUMS_H_

#include "ir/module.h"

namespace gshard::pipeline {

// In the entry; rows along dim 0 that nothing is added to are zeros. Sums of pads that overlap stay
// as they are.
void JoinPaddedRows(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_ROW_SUMS_H_
