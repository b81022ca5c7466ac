// What one alike stage is handed in the place of what another is.
#ifndef GSHARD_CORE_PIPELINE_EMIT_SIDE_BY_SIDE_H_
#define GSHARD_CORE_PIPELINE_EMIT_SIDE_BY_SIDE_H_

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/pipeline/emit/stages.h"

namespace gshard::pipeline {

struct SideBySide {
  struct Use {
    Instruction* user;
    int64_t operand;
    int64_t place;  // of that operand in `a`: sums and products may have theirs in another order
  };
  // Values that other stages hand to `a` and to `b`, in the same place.
  std::vector<std::pair<const Instruction*, const Instruction*>> handed;
  // What `b` itself has (constants, examples, forward values) where others hand `a` a value, and
  // where it reads that.
  std::unordered_map<const Instruction*, std::vector<Use>> not_handed;
  // Values of `b` that are summands in `a`: the other one, by its place in the sum, is handed to
  // it.
  std::unordered_map<const Instruction*, int64_t> lone_summands;
};

// Walks a pass of the stages `a` and `b` from what they hand on and add up to what they are handed,
// as far as they are alike.
SideBySide CompareStages(const StageGraph& stages, Pass pass, int64_t a, int64_t b);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_SIDE_BY_SIDE_H_
