// Arrays whose rows are layers' own: stacked parameters, and what follows from them row by row.
//
//   w f32[8,64,64]               rows 0..7 are weights of 8 layers
//   convert(w), reduce(abs(w))   rows follow from the rows of w
//   transpose(w, {1,0,2})        no stack: dim 0 counts something else
#ifndef GSHARD_CORE_PIPELINE_ROWS_LAYER_STACKS_H_
#define GSHARD_CORE_PIPELINE_ROWS_LAYER_STACKS_H_

#include <unordered_map>
#include <vector>

#include "ir/instruction.h"

namespace gshard::pipeline {

class LayerStacks {
 public:
  // Returns the parameters whose row i makes row i of `x`, `x` itself among them; none if what is
  // along dim 0 of `x` is no parameter's dim 0. Computed once for each value.
  const std::vector<const Instruction*>& ParametersOf(const Instruction* x);

 private:
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> parameters_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_LAYER_STACKS_H_
