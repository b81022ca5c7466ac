// Which instructions surely need which others, told without a search.
//
// The parent of an instruction is that of its operands which is at the end of the longest chain of
// operands. In a network that is the chain through all of its layers, forward and back, and most of
// what follows from a value stands below it in this tree.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_DEPENDENCE_TREE_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_DEPENDENCE_TREE_H_

#include <cstdint>
#include <vector>

#include "ir/computation.h"

namespace gshard {

class DependenceTree {
 public:
  // O(operands).
  explicit DependenceTree(const Computation& computation);

  // True if `x` is `other`, or needs it through its parent. False says nothing: it may need it
  // along another path. Both are of the computation; O(1).
  bool IsBelow(const Instruction* x, const Instruction* other) const {
    const Place& above = places_[other->id() - first_id_];
    const uint32_t at = places_[x->id() - first_id_].number;
    return at >= above.number && at < above.end;
  }

 private:
  // Numbers of all that is below an instruction follow its own, up to `end`.
  struct Place {
    uint32_t number = 0, end = 0;
  };
  uint32_t first_id_ = UINT32_MAX;
  std::vector<Place> places_;  // by id
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_DEPENDENCE_TREE_H_
