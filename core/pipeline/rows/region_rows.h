// Rows of stacked parameters that manual regions take.
//
// A region around a loop over layers, as shard_map makes it, takes rows of the whole stack's tile,
// and stages that use such a row would need the whole stack. The row is taken outside in its place,
// and enters the region by a border of its own, cut as the stack:
//
//   f32[8,64,64] w, dim 1 in 2 tiles -> border -> f32[8,32,64] -> slice f32[1,32,64]
//   f32[8,64,64] w -> slice f32[1,64,64], dim 1 in 2 tiles -> border -> f32[1,32,64]
#ifndef GSHARD_CORE_PIPELINE_ROWS_REGION_ROWS_H_
#define GSHARD_CORE_PIPELINE_ROWS_REGION_ROWS_H_

#include <cstdint>
#include <unordered_set>

#include "ir/module.h"

namespace gshard::pipeline {

// In the entry, where loops over layers are written out. `data`: numbers of the parameters that
// hold examples, whose rows stay where they are taken. Borders are custom calls still.
void TakeRowsOutside(Module& module, const std::unordered_set<int64_t>& data);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_REGION_ROWS_H_
