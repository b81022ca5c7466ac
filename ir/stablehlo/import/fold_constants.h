// Elementwise operations on one number repeated. Internal to ir/stablehlo.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_FOLD_CONSTANTS_H_
#define GSHARD_IR_STABLEHLO_IMPORT_FOLD_CONSTANTS_H_

#include <span>

#include "ir/context.h"
#include "ir/instruction.h"
#include "ir/literal.h"

namespace gshard::stablehlo {

// What the elementwise operation `x` makes of these scalars, its operands' elements: one scalar of
// its type. Null where it is not folded: other operations than XLA's export folds, complex numbers,
// integers divided by zero, NaN of maximum and minimum.
const Literal* FoldScalars(Arena& arena, Context& context, const Instruction& x,
                           std::span<const Literal* const> operands);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_FOLD_CONSTANTS_H_
