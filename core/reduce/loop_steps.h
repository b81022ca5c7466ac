// Steps on while loops, and what keeps the others from making loops that never end. steps.h tells
// what `count` and `apply` are.
#ifndef GSHARD_CORE_REDUCE_LOOP_STEPS_H_
#define GSHARD_CORE_REDUCE_LOOP_STEPS_H_

#include <cstdint>
#include <unordered_set>

#include "ir/module.h"

namespace gshard::reduce {

// How long the loops of a module may run.
struct LoopBounds {
  int64_t uncounted = 0;   // loops whose text does not tell how often they run
  int64_t most_trips = 0;  // of a loop whose text does
};
LoopBounds BoundsOf(const Module& module);

// What the counters of counted loops are made of: their starts, their steps, the comparisons. Where
// something else stands in for one of these, the loop may run forever.
std::unordered_set<const Instruction*> CounterValues(const Module& module);

// Loops with more than two trips, which run two, or half as often.
int64_t CountLongLoops(Module& module);
bool LoopsRunTwice(Module& module, int64_t begin, int64_t end);
bool LoopsRunHalf(Module& module, int64_t begin, int64_t end);

// Elements of loops' states that the loops no longer carry: zeros stand in for them inside, and
// what they start as behind the loop.
int64_t CountStateElements(Module& module);
bool DropStateElements(Module& module, int64_t begin, int64_t end);

}  // namespace gshard::reduce

#endif  // GSHARD_CORE_REDUCE_LOOP_STEPS_H_
