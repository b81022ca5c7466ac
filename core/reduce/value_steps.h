// Steps on values: other results, and simpler things in the place of instructions. steps.h tells
// what `count` and `apply` are.
#ifndef GSHARD_CORE_REDUCE_VALUE_STEPS_H_
#define GSHARD_CORE_REDUCE_VALUE_STEPS_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard::reduce {

// An instruction of the entry becomes its only result: one item for each size that its cone, the
// instructions that it needs, may have; of twice as many instructions from one to the next.
int64_t CountCones(Module& module);
bool ResultFromCone(Module& module, int64_t begin, int64_t end);

// Elements of the entry's root tuple, which go; a tuple of one becomes that element.
int64_t CountResults(Module& module);
bool DropResults(Module& module, int64_t begin, int64_t end);

// Instructions of the entry, users first, that become parameters of their shape and sharding.
int64_t CountEntryValues(Module& module);
bool ValuesToParameters(Module& module, int64_t begin, int64_t end);
// The same with the shardings that are inferred for them, where they have others or none.
bool ValuesToShardedParameters(Module& module, int64_t begin, int64_t end);

// Instructions of all computations, users first, whose users read an operand of the same shape in
// their place, or the element of a tuple() that they take. A while loop's state is an operand: the
// loop is cut.
int64_t CountPassThrough(Module& module);
bool ValuesToOperands(Module& module, int64_t begin, int64_t end);

// Array-shaped instructions outside of the entry and of conditions of loops, which become zeros.
int64_t CountInnerValues(Module& module);
bool ValuesToZeros(Module& module, int64_t begin, int64_t end);

// Loops and conditionals, which become calls: of the body, once, and of the first branch.
int64_t CountControlFlow(Module& module);
bool ControlFlowToCalls(Module& module, int64_t begin, int64_t end);

// One item: all calls, which are inlined.
int64_t CountCalls(Module& module);
bool InlineAllCalls(Module& module, int64_t begin, int64_t end);

// Parameters of the entry whose shape and sharding an earlier one has, which becomes both.
int64_t CountTwinParameters(Module& module);
bool MergeParameters(Module& module, int64_t begin, int64_t end);

}  // namespace gshard::reduce

#endif  // GSHARD_CORE_REDUCE_VALUE_STEPS_H_
