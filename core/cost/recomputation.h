// Which instructions do again what was done before, to keep nothing of it in between.
#ifndef GSHARD_CORE_COST_RECOMPUTATION_H_
#define GSHARD_CORE_COST_RECOMPUTATION_H_

#include <algorithm>
#include <functional>
#include <string_view>

#include "ir/instruction.h"
#include "ir/module.h"

namespace gshard {

// True for what jax.checkpoint computes again (op_name has "rematted_computation") and for what a
// rematerialisation pass cloned (".remat" in the name, as XLA and gshard-opt remat write it).
inline bool IsRecomputed(const Instruction& instruction) {
  // Asked of every member of every kernel: most characters of the text are skipped.
  static constexpr std::string_view kMark = "rematted_computation";
  static const std::boyer_moore_horspool_searcher kSearcher(kMark.begin(), kMark.end());
  const std::string_view metadata = instruction.metadata();
  return std::search(metadata.begin(), metadata.end(), kSearcher) != metadata.end() ||
         instruction.name().find(".remat") != std::string_view::npos;
}

// Can IsRecomputed() know? Not of a text without a single op_name, unless a pass has cloned values.
inline bool TellsRecomputation(const Module& module) {
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(), [](const Instruction* x) {
      return x->metadata().find("op_name") != std::string_view::npos || IsRecomputed(*x);
    });
  });
}

}  // namespace gshard

#endif  // GSHARD_CORE_COST_RECOMPUTATION_H_
