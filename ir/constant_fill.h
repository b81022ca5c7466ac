// Arrays all of whose elements are one constant, however the text writes them.
#ifndef GSHARD_IR_CONSTANT_FILL_H_
#define GSHARD_IR_CONSTANT_FILL_H_

#include <optional>

#include "ir/instruction.h"
#include "ir/literal.h"

namespace gshard {

// The constant whose first element is every element of `x`: itself, or behind broadcasts,
// transposes, what keeps the order of elements (KeepsOrder) and calls that change nothing
// (IsIdentityCall). Null: there is none, or the text has not printed it.
const Literal* ConstantFill(const Instruction* x);

// The number that every element of `x` is, if that is known: of a constant fill, converted where
// converts are on the way. Of complex numbers real ones only.
std::optional<double> FillingNumber(const Instruction* x);

// Is every element of `x` the number `value`? Zeros of floats are told apart by sign.
bool IsFilledWith(const Instruction* x, double value);
// Is every element of `x` a zero, of either sign?
bool IsFilledWithZero(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_IR_CONSTANT_FILL_H_
