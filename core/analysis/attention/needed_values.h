// Which values of a module its results and side effects need, through loops and branches, tuple
// element by element, and which ones they would no longer need if some operations made operands
// themselves: those, no compiler computes.
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
  // Edges from an instruction to an operand. `is_unneeded` is asked of each: it must be there.
  struct Changes {
    std::function<bool(const Instruction* user, const Instruction* operand)> is_unneeded;
    std::unordered_multimap<const Instruction*, const Instruction*> also_needed;  // user, value
  };
  // Linear in the module.
  NeededValues(const Module& module, const Changes& changes);

  // Is element `element` of the tuple `x`, or of an array, element 0, needed for nothing but what
  // the changes leave out?
  bool IsLeftOut(const Instruction* x, int64_t element) const {
    return states_[begin_[x->id()] + static_cast<size_t>(element)] == State::kLeftOut;
  }
  static int64_t ElementsOf(const Instruction* x) {
    return x->shape()->IsTuple() ? static_cast<int64_t>(x->shape()->elements().size()) : 1;
  }

 private:
  static constexpr int64_t kAll = -1;

  enum class State : uint8_t { kUnknown, kNeeded, kLeftOut };

  void Need(const Instruction* x, int64_t element);
  void VisitPending();
  void Visit(const Instruction* x, int64_t element);
  void VisitOnce(const Instruction* x);
  // Element `element` of what `caller`, a loop or a conditional, hands to its computation `called`.
  void NeedOfCaller(const Instruction* caller, const Computation* called, int64_t element);
  // What callers leave out is left out of the computation's parameter, too, if nothing there reads
  // it: what a loop's condition or a branch does not ask for.
  void LeaveOutParameter(const Computation& computation);

  const Changes& changes_;
  std::vector<size_t> begin_;                       // by instruction id
  std::vector<State> states_;                       // of elements
  State reached_ = State::kNeeded;                  // what an element is that is reached now
  std::vector<bool> is_visited_, has_also_needed_;  // by instruction id
  std::vector<const Instruction*> left_out_;        // operands that changes leave out
  std::unordered_multimap<const Computation*, const Instruction*> callers_of_;
  std::vector<std::pair<const Instruction*, int64_t>> pending_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_NEEDED_VALUES_H_
