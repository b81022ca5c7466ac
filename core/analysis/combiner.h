// What a called computation of scalars does: the one answer for passes, partitioner and kernels.
#ifndef GSHARD_CORE_ANALYSIS_COMBINER_H_
#define GSHARD_CORE_ANALYSIS_COMBINER_H_

#include <cstdint>
#include <optional>

#include "ir/computation.h"

namespace gshard {

class Builder;

// The opcode if the computation is `op(p0, p1)` or, for commutative ones, `op(p1, p0)`, of an
// elementwise operation other than compare, all of one type. Copies are looked through, and so are
// floats that are widened for the operation and narrowed after it (JAX's reductions of bf16):
// rounded once, the result is that of the operation on the narrow type.
std::optional<Opcode> SingleBinaryOperation(const Computation& computation);

// The same for reductions: add, multiply, maximum, minimum, and, or, xor; else nothing.
std::optional<Opcode> CombinerOf(const Computation* computation);

// What add, multiply, maximum, minimum, and, or, xor leave every number as it is with, in floats
// and complex numbers (0 of either sign for sums; the lowest or highest number of a type without
// infinities), and in integers and pred (u64 by bit pattern).
double FloatIdentity(Opcode combiner, DType dtype);
int64_t IntegerIdentity(Opcode combiner, DType dtype);
// Is every element of `x` known to be that?
bool IsFilledWithIdentity(const Instruction* x, Opcode combiner);
// An array of it.
Instruction* IdentityArray(Builder& b, const Shape* shape, Opcode combiner);

// Does the computation add, subtract or multiply, or call what may? One that does not, such as a
// maximum, picks among its operands, and no errors add up in it.
bool Accumulates(const Computation& computation);

// compare(p0, p1) of two parameters, or compare(p1, p0) with its direction mirrored: which of two
// values a select-and-scatter or a sort of single arrays prefers. Else nothing.
std::optional<CompareAttributes> ComparisonOf(const Computation& computation);

// Which parameter the computation returns unchanged; -1: none.
int64_t ForwardedParameter(const Computation& computation);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_COMBINER_H_
