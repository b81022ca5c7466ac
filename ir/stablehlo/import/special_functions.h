// Functions of CHLO that HLO has no instruction for, made of instructions that it has. Elementwise
// on floats; f32 and f64 have approximations of their own, smaller types compute in f32. Operands
// of one shape; results have it.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_SPECIAL_FUNCTIONS_H_
#define GSHARD_IR_STABLEHLO_IMPORT_SPECIAL_FUNCTIONS_H_

#include "ir/builder.h"

namespace gshard::stablehlo {

// Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012).
Instruction* ErfInv(Builder& builder, Instruction* x);
// Cephes: near zero 1 - erf(x), rational in x or 1/x^2 times exp(-x^2) elsewhere.
Instruction* Erfc(Builder& builder, Instruction* x);
// Lanczos with g = 7 and nine terms (Godfrey's coefficients), reflected below 1/2.
Instruction* Lgamma(Builder& builder, Instruction* x);
Instruction* Digamma(Builder& builder, Instruction* x);
// Hurwitz zeta by Euler-Maclaurin summation with ten terms (Cephes).
Instruction* Zeta(Builder& builder, Instruction* x, Instruction* q);
// (-1)^(n+1) n! zeta(n + 1, x); digamma for n = 0.
Instruction* Polygamma(Builder& builder, Instruction* n, Instruction* x);
// exp(-|x|) I1(x) by Chebyshev series (Cephes).
Instruction* BesselI1e(Builder& builder, Instruction* x);
// The neighbour of `x` in the direction of `y`, on the bits.
Instruction* NextAfter(Builder& builder, Instruction* x, Instruction* y);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_SPECIAL_FUNCTIONS_H_
