// What a reduction computation does.
#ifndef GSHARD_CORE_ANALYSIS_COMBINER_H_
#define GSHARD_CORE_ANALYSIS_COMBINER_H_

#include <optional>

#include "ir/computation.h"

namespace gshard {

// The operation a computation of two scalars performs, if it is add, multiply, maximum, minimum,
// and, or, xor; else nothing.
std::optional<Opcode> CombinerOf(const Computation* computation);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_COMBINER_H_
