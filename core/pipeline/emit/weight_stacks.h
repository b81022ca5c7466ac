// Weights of all stages as one array whose first dim is cut over the stages.
#ifndef GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_
#define GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_

#include <functional>
#include <vector>

#include "core/pipeline/emit/region_shardings.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// The weight of one (device, chunk); null: that stage has none of this shape.
struct StackRow {
  Instruction* value = nullptr;
};

// [K * R, ...]: rows by device, then chunk; zeros where there is none. Rows that are evenly spaced
// slices of one stacked parameter are one slice of it, reshaped.
Instruction* StackWeights(Builder& b, const std::vector<StackRow>& rows, const Shape* shape,
                          const RegionShardings& shardings, const Sharding* row_sharding);

// The dim of a parameter that is cut over the stages: the first whose tiles divide evenly; -1:
// none.
int64_t StageDim(const Shape* shape, const Sharding* s, int64_t stages);

// The user's annotation of a value made of a parameter by slices, reshapes and elementwise
// operations; null: none.
const Sharding* AnnotationOf(const Instruction* x,
                             const std::function<const Sharding*(const Instruction*)>& annotation,
                             Context& context);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_
