// Equality of typed attributes, member by member as the table of their text lists them.
#ifndef GSHARD_IR_ATTRIBUTE_EQUALITY_H_
#define GSHARD_IR_ATTRIBUTE_EQUALITY_H_

#include <cstddef>

#include "ir/instruction.h"

namespace gshard {

// Do two instructions of one opcode have the same attributes? Channel ids, which tell one
// communication from another, are not compared, nor are called computations, shapes and shardings.
bool SameAttributes(const Instruction& a, const Instruction& b);
// Equal for instructions that have the same attributes; cheap, so that many others share it.
size_t HashOfAttributes(const Instruction& instruction);

}  // namespace gshard

#endif  // GSHARD_IR_ATTRIBUTE_EQUALITY_H_
