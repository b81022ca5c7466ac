// What an elementwise operation makes of integers and preds: the one answer for whoever evaluates
// parts of a program (trip counts, sizes, which branch a device takes).
#ifndef GSHARD_IR_INTEGER_OPERATION_H_
#define GSHARD_IR_INTEGER_OPERATION_H_

#include <cstdint>
#include <span>

#include "ir/instruction.h"

namespace gshard {

// Those that EvaluateInteger knows.
bool IsIntegerOperation(Opcode opcode);

// The element that `x`, such an operation, makes of these elements of its operands, all integers or
// preds. As the types compute: results that do not fit wrap around, of a division by zero all bits
// are set; u64 is passed as the int64 of the same bits.
int64_t EvaluateInteger(const Instruction& x, std::span<const int64_t> operands);

// As an integer type or pred stores it: what does not fit wraps around, pred is 0 or 1.
int64_t WrapToType(int64_t value, DType dtype);

}  // namespace gshard

#endif  // GSHARD_IR_INTEGER_OPERATION_H_
