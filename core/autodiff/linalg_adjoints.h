// Adjoints of factorisations and solves, for opcodes and LAPACK calls alike.
// Sources: I. Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.2; M.
// Giles, "Collected matrix derivative results" (2008), section 2.2.3.
#ifndef GSHARD_CORE_AUTODIFF_LINALG_ADJOINTS_H_
#define GSHARD_CORE_AUTODIFF_LINALG_ADJOINTS_H_

#include "core/autodiff/reverse_scope.h"

namespace gshard {

// Of the triangle that is read, from the factor and its adjoint. c is masked to the triangle.
Instruction* CholeskyAdjoint(Builder& builder, Instruction* factor, Instruction* c, bool is_lower);

// op(a) x = b or x op(a) = b: adds to operands 0 and 1 of `instruction`, which gave `x`.
void AddTriangularSolveAdjoints(Instruction* instruction, Instruction* x, Instruction* c,
                                const TriangularSolveAttributes& solve, ReverseScope& scope);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_LINALG_ADJOINTS_H_
