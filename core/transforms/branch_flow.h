// Values that conditionals hand to their branches and take from them.
#ifndef GSHARD_CORE_TRANSFORMS_BRANCH_FLOW_H_
#define GSHARD_CORE_TRANSFORMS_BRANCH_FLOW_H_

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/traversal.h"

namespace gshard {

// Follows a value through conditionals whose branches have one caller each. A snapshot: invalid
// after the module changes.
class BranchFlow {
 public:
  explicit BranchFlow(const Module& module);

  // The instructions of its own computation that use `x`.
  std::span<Instruction* const> UsersOf(const Instruction* x) const { return users_.of(x); }
  // The instructions of other computations that are the same value: what the branches of a
  // conditional read of it, or what the caller reads of the conditional's result.
  std::vector<Instruction*> Beyond(const Instruction* x) const;
  // The value that a branch was handed as `x`, as far outside as it can be followed; `x` itself
  // where it was not handed to a branch.
  Instruction* Outside(Instruction* x) const;

 private:
  struct Call {
    Instruction* conditional = nullptr;
    Instruction* argument = nullptr;
  };
  // Appends what reads element `index` of `tuple`.
  void AddElements(const Instruction* tuple, int64_t index, std::vector<Instruction*>& out) const;

  Users users_;
  std::unordered_map<const Computation*, Call> calls_;  // by branch
};

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_BRANCH_FLOW_H_
