// The cost rule of each family, for the table in core/cost/op_cost.cc.
#ifndef GSHARD_CORE_COST_RULES_H_
#define GSHARD_CORE_COST_RULES_H_

#include "core/cost/op_cost.h"

namespace gshard {

OpCost ElementwiseCost(const Instruction& instruction);
OpCost MovementCost(
    const Instruction& instruction);  // broadcast, reshape, transpose, iota, tuple, ..
OpCost SliceCost(const Instruction& instruction);
OpCost DotCost(const Instruction& instruction);
OpCost ConvolutionCost(const Instruction& instruction);
OpCost ReduceCost(const Instruction& instruction);
OpCost ReduceWindowCost(const Instruction& instruction);
OpCost GatherScatterCost(const Instruction& instruction);
OpCost SortCost(const Instruction& instruction);
OpCost RngCost(const Instruction& instruction);
OpCost LinalgCost(const Instruction& instruction);
OpCost FftCost(const Instruction& instruction);
OpCost CollectiveLocalCost(const Instruction& instruction);  // the combiner's operations
OpCost CustomCallCost(const Instruction& instruction);       // known library calls
OpCost NoCost(const Instruction& instruction);  // control flow: the callees are counted

// Floating-point operations of one evaluation of a scalar computation (a reduction body).
double ScalarComputationFlops(const Computation& computation);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_RULES_H_
