#include "core/autodiff/linalg_adjoints.h"

#include "core/autodiff/matrix.h"

namespace gshard {

Instruction* CholeskyAdjoint(Builder& builder, Instruction* factor, Instruction* c, bool is_lower) {
  const Matrix m(builder);
  const Emit e(builder);
  // Gradients in the usual convention are conjugates of adjoints.
  Instruction* l = is_lower ? factor : m.Adjoint(factor);
  Instruction* dl = is_lower ? e.Conj(c) : m.Transpose(c);
  l = m.Lower(l);
  Instruction* p = m.HalfLower(m.Product(m.Adjoint(l), m.Lower(dl)));
  p = m.Solve(l, p, {true, true, false, TransposeKind::kAdjoint});
  p = m.Solve(l, p, {false, true, false, TransposeKind::kNoTranspose});
  Instruction* a = m.ToTriangle(p, true);
  return is_lower ? e.Conj(a) : m.Transpose(a);
}

void AddTriangularSolveAdjoints(Instruction* instruction, Instruction* x, Instruction* c,
                                const TriangularSolveAttributes& solve, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Matrix m(b);
  const Emit e(b);
  Instruction* a = scope.Value(instruction->operand(0));
  TriangularSolveAttributes back = solve;
  Instruction* factor = a;
  if (solve.transpose_a == TransposeKind::kNoTranspose) {
    back.transpose_a = TransposeKind::kTranspose;
  } else {
    back.transpose_a = TransposeKind::kNoTranspose;
    if (solve.transpose_a == TransposeKind::kAdjoint) factor = e.Conj(a);
  }
  Instruction* db = m.Solve(factor, c, back);
  scope.Add(instruction->operand(1), db);
  if (!scope.Wants(instruction->operand(0))) return;
  Instruction* da = solve.left_side ? m.Product(db, m.Transpose(x)) : m.Product(m.Transpose(x), db);
  if (solve.transpose_a == TransposeKind::kTranspose) da = m.Transpose(da);
  if (solve.transpose_a == TransposeKind::kAdjoint) da = m.Adjoint(da);
  da = e.Neg(da);
  const int64_t diagonal = solve.unit_diagonal ? 1 : 0;
  scope.Add(instruction->operand(0),
            solve.lower ? m.Lower(da, diagonal) : m.Upper(da, 1 - diagonal));
}

}  // namespace gshard
