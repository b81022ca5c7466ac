// Do two instructions or computations say the same? For value numbering and merging of duplicates.
#ifndef GSHARD_IR_EQUALITY_H_
#define GSHARD_IR_EQUALITY_H_

#include "ir/computation.h"

namespace gshard {

// Opcode, attributes (SameAttributes), frontend attributes and backend config are equal, and the
// called computations do the same. Names, operands, shape, sharding and metadata do not count.
bool SameOperation(const Instruction& a, const Instruction& b);
// The same, whatever the frontend attributes say.
bool SameButFrontendAttributes(const Instruction& a, const Instruction& b);

// Are both constants, of the same type and dims and bits, of two contexts perhaps? What the text
// has not printed is equal to itself alone.
bool SameConstant(const Instruction& a, const Instruction& b);

// The same work, whatever stands in front of what: what the root needs is compared, shardings
// included, and the number of the rest. Frontend attributes do not count, as they may name
// instructions (gshard.cause), nor does it whether a row-major layout is written.
bool SameComputation(const Computation& a, const Computation& b);

}  // namespace gshard

#endif  // GSHARD_IR_EQUALITY_H_
