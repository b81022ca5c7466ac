// What must be known of a program to tell whether devices part: the arrays that conditions of loops
// and branches follow from, and the sizes of ragged exchanges. Most programs compute these from a
// counter or two; what the rest of their arrays are on each device need not be found.
#ifndef GSHARD_CORE_CHECK_CONDITION_DEMAND_H_
#define GSHARD_CORE_CHECK_CONDITION_DEMAND_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace gshard {

class ConditionDemand {
 public:
  explicit ConditionDemand(const Module& module);

  // Does any condition or size follow from a leaf of x?
  bool IsWanted(const Instruction& x) const { return !wanted_[x.id()].empty(); }

 private:
  void Want(const Instruction& x, int64_t leaf);
  void WantAll(const Instruction& x);
  void WantOperands(const Instruction& x);
  // Goes back from one leaf to what it is made of.
  void Follow(const Instruction& x, int64_t leaf);
  void FollowParameter(const Instruction& parameter, int64_t leaf);

  std::vector<std::vector<bool>> wanted_;  // by instruction id and leaf; empty: none
  std::vector<std::vector<const Instruction*>> callers_;  // by id of a computation's root
  std::vector<std::pair<const Instruction*, int64_t>> open_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_CONDITION_DEMAND_H_
