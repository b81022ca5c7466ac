// Algebraic clean-up: what an expert would not have written.
//
// Every rule is exact (bit for bit, NaN payloads aside), makes the program smaller or brings it
// into the form other passes look for, and looks at an instruction and its operands only. Rules of
// one op family are together: arithmetic here, data movement in movement_simplifier.cc.
#ifndef GSHARD_CORE_TRANSFORMS_ALGEBRAIC_SIMPLIFIER_H_
#define GSHARD_CORE_TRANSFORMS_ALGEBRAIC_SIMPLIFIER_H_

#include "core/analysis/device_function.h"
#include "ir/builder.h"

namespace gshard {

// Simplifies all computations: neutral elements, constants, converts and movements that undo one
// another, slices of what was just put together, collectives among one device, and lookups of
// partition-id in tables that are arithmetic. True if something changed. Linear.
bool SimplifyAlgebra(Module& module);

// --- what the rules share

struct SimplifyContext {
  Builder& builder;
  DeviceFunctions& devices;
};

// What stands in for x; x itself if no rule applies.
Instruction* SimplifyMovement(SimplifyContext& context, Instruction* x);

// The scalar that fills all elements of x: x if it is a scalar, the operand of a broadcast of one;
// else null.
Instruction* FillingScalar(Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ALGEBRAIC_SIMPLIFIER_H_
