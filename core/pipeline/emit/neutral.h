// What an accumulator starts from.
#ifndef GSHARD_CORE_PIPELINE_EMIT_NEUTRAL_H_
#define GSHARD_CORE_PIPELINE_EMIT_NEUTRAL_H_

#include "ir/builder.h"

namespace gshard::pipeline {

// An array of the neutral element of add, multiply, maximum, minimum, and, or, xor.
Instruction* NeutralOf(Builder& b, const Shape* shape, Opcode combiner);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_NEUTRAL_H_
