// Rows of stacked arrays that go from the stages that have them to those that need them.
//
// A parameter of L layers is cut over the stages in equal tiles; the weights of one slot are a row
// of each stage's layers, and the sums of gradients go the way back. Written as a concatenation of
// single rows, each row would be sent to all stages, which hold the whole model for a moment. What
// a stage has not itself comes from the one that has it, in few collective-permutes
// (row_exchange.h). What a step makes of a layer's rows before the layer uses them, such as a
// quantized weight (rows/row_function.h), is made where it is used, or sent where that is less.
//
//   8 layers on 4 stages of 1, 2, 2, 3   tiles 01 23 45 67, first rows of the stages 0 1 3 5
//   stays                                0 . . .
//   one permute                          . 1 3 5
//
// Where nothing moves, and where what is sent is made by operations that change dims and is not
// small, rows are selected from shifted arrays of all devices' rows instead, of which the
// partitioner makes a collective-permute a shift.
#ifndef GSHARD_CORE_PIPELINE_RESTACK_H_
#define GSHARD_CORE_PIPELINE_RESTACK_H_

#include <unordered_map>
#include <unordered_set>

#include "core/pipeline/emit/region_shardings.h"

namespace gshard::pipeline {

struct RestackInputs {
  const RegionShardings* shardings = nullptr;
  // Copies in the entry that hold an annotation of the user's: how it lies over the devices of one
  // stage.
  const std::unordered_map<const Instruction*, const Sharding*>* annotations = nullptr;
  // Zeros that stand for rows of stages which have none.
  const std::unordered_set<const Instruction*>* unread = nullptr;
};

// In the entry, of concatenations along dim 0 of single rows of arrays whose dim 0 is cut over the
// stages, or of functions of such rows. Rows that do not divide fill tiles but the last ones. Other
// concatenations stay as they are. What nobody reads any more goes.
void RestackRows(Module& module, const RestackInputs& inputs);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_RESTACK_H_
