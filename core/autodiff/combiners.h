// What reducers and combiners do, as reverse rules ask.
#ifndef GSHARD_CORE_AUTODIFF_COMBINERS_H_
#define GSHARD_CORE_AUTODIFF_COMBINERS_H_

#include <optional>

#include "ir/builder.h"

namespace gshard {

// add, multiply, maximum, minimum if the computation of two scalars is that, also in a wider type
// (bf16 -> f32 -> bf16); else nothing.
std::optional<Opcode> ReductionOf(const Computation& computation);

// Is the scalar `init` a constant that changes nothing under `combiner` (0 for add, -inf or the
// lowest value for maximum)?
bool IsIdentityOf(const Instruction* init, Opcode combiner);

// Element `i` of the leading dim of `x`, without that dim.
Instruction* ElementAt(Builder& builder, Instruction* x, Instruction* i);
// `x` with element `i` of the leading dim replaced.
Instruction* WithElementAt(Builder& builder, Instruction* x, Instruction* element, Instruction* i);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_COMBINERS_H_
