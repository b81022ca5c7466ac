// Sums over the batch of what examples alone decide (masks, token counts): known before the
// micro-batches, and the whole batch's.
#ifndef GSHARD_CORE_PIPELINE_EMIT_WHOLE_SUMS_H_
#define GSHARD_CORE_PIPELINE_EMIT_WHOLE_SUMS_H_

#include <functional>
#include <unordered_map>
#include <vector>

#include "core/pipeline/emit/manual_borders.h"
#include "core/pipeline/plan/phases.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// How a parameter with examples lies: its dim, and into how many shards of the mesh it is cut.
struct DataForm {
  int64_t dimension = 0;
  int64_t shards = 1;
};

// Rows of micro-batch `index` (s32[]) of M: of each shard its own.
Instruction* MicrobatchRows(Builder& b, Instruction* whole, const DataForm& form, int64_t count,
                            Instruction* index);

struct WholeSumInputs {
  Module* module = nullptr;
  const Phases* phases = nullptr;
  int64_t microbatches = 1;
  // By id, of the program of one micro-batch: what is there already in the new entry (parameters
  // whole), null of the rest.
  const std::vector<Instruction*>* value = nullptr;
  std::unordered_map<const Instruction*, DataForm> data;
  const ManualBorders* borders = nullptr;
  // The user's sharding of a value of IN; null: none.
  std::function<const Sharding*(const Instruction*)> annotation;
};

// The all-reduce `sum` over all micro-batches, as a loop appended by `b`.
Instruction* EmitWholeSum(Builder& b, const WholeSumInputs& in, Instruction* sum);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_WHOLE_SUMS_H_
