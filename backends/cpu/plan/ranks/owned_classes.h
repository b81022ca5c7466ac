// Of a chain that several ranks would compute alike: which of them does. Values that devices of
// several ranks share, such as a product of weights that data-parallel replicas all need, are
// computed by each rank that has them; where that takes longer than to send them, their classes are
// divided between those ranks, and each sends the others its results.
//
//   each computes all    most classes a rank has * time of one
//   divided              most classes a rank then runs * time of one + most bytes a rank sends or
//                        takes / speed of the network + rounds * time of a message
//
// All ranks decide alike, from the plan and from speeds that are stated, not measured.
#ifndef GSHARD_BACKENDS_CPU_PLAN_RANKS_OWNED_CLASSES_H_
#define GSHARD_BACKENDS_CPU_PLAN_RANKS_OWNED_CLASSES_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/plan/plan.h"
#include "backends/cpu/plan/ranks/wire_plan.h"

namespace gshard::cpu {

struct OwnedClasses {
  // By class: whether this rank runs it. Empty: each runs what it has.
  std::vector<uint8_t> runs_here;
  WirePlan wire;  // of the results
};

OwnedClasses MakeOwnedClasses(const Plan& plan, const ChainStep& step, RankHolders& holders);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_RANKS_OWNED_CLASSES_H_
