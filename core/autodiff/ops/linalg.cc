// cholesky, triangular-solve.
//
//   L = cholesky(A)      A += L^-H P L^-1,  P = the lower half of L^H dL
//   op(A) X = B          B += op(A)^-T c,   op(A) -= (dB) X^T

#include "core/autodiff/linalg_adjoints.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradCholesky(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  scope.Add(x->operand(0), CholeskyAdjoint(scope.builder(), scope.Value(x), adjoints[0],
                                           x->attributes<CholeskyAttributes>().lower));
  return {};
}

Expected<void> GradTriangularSolve(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  AddTriangularSolveAdjoints(x, scope.Value(x), adjoints[0],
                             x->attributes<TriangularSolveAttributes>(), scope);
  return {};
}

}  // namespace gshard
