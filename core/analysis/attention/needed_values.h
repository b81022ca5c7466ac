// Which values of a module its results and side effects need, through loops, tuple element by
// element: what is not needed, no compiler computes.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_NEEDED_VALUES_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_NEEDED_VALUES_H_

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace gshard {

class NeededValues {
 public:
  // Edges from an instruction to an operand.
  struct Changes {
    std::function<bool(const Instruction* user, const Instruction* operand)> is_unneeded;
    std::unordered_multimap<const Instruction*, const Instruction*> also_needed;  // user, value
  };
  // Linear in the module.
  NeededValues(const Module& module, const Changes& changes);

  // Is element `element` of the tuple `x` needed; of an array, element 0?
  bool Has(const Instruction* x, int64_t element) const {
    return needed_[begin_[x->id()] + static_cast<size_t>(element)];
  }
  static int64_t ElementsOf(const Instruction* x) {
    return x->shape()->IsTuple() ? static_cast<int64_t>(x->shape()->elements().size()) : 1;
  }

 private:
  static constexpr int64_t kAll = -1;

  void Need(const Instruction* x, int64_t element);
  void Visit(const Instruction* x, int64_t element);
  void VisitOnce(const Instruction* x);

  const Changes& changes_;
  std::vector<size_t> begin_;  // by instruction id
  std::vector<bool> needed_, is_visited_;
  std::unordered_multimap<const Computation*, const Instruction*> loops_of_;
  std::vector<std::pair<const Instruction*, int64_t>> pending_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_NEEDED_VALUES_H_
