// Weights of all stages as one array whose first dim is cut over the stages.
#ifndef GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_
#define GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_

#include <functional>
#include <unordered_set>
#include <vector>

#include "core/pipeline/emit/region_shardings.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// The weight of one (device, chunk); null: that stage has none of this shape.
struct StackRow {
  Instruction* value = nullptr;
};

// [K * R, ...]: rows by device, then chunk; zeros where there is none, which are added to `unread`.
Instruction* StackWeights(Builder& b, const std::vector<StackRow>& rows, const Shape* shape,
                          std::unordered_set<const Instruction*>& unread);

// The dim of a parameter that is cut over the stages: the first whose tiles divide evenly; of a
// stack of layers' weights (`is_stack`) dim 0, also where the last device has fewer layers. -1:
// none.
int64_t StageDim(const Shape* shape, const Sharding* s, int64_t stages, bool is_stack);

// The user's annotation of a value made of a parameter by slices, reshapes, transposes and
// elementwise operations; null: none, or one that says that it is whole.
const Sharding* AnnotationOf(const Instruction* x,
                             const std::function<const Sharding*(const Instruction*)>& annotation,
                             Context& context);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_WEIGHT_STACKS_H_
