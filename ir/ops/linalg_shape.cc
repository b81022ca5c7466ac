// Batched matrix factorisations and solves over the last two dims.
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

Problem CheckSquare(const OpView& op) {
  const Shape* a = op.operands[0];
  if (Problem problem = CheckArrays(op)) return problem;
  if (!IsFloat(a->dtype()) && !IsComplex(a->dtype())) {
    return ProblemOf("{} takes floats or complex numbers, found {}", OpcodeName(op.opcode),
                     Text(a));
  }
  if (a->rank() < 2 || !SizesAgree(a->dim(a->rank() - 2), a->dim(a->rank() - 1))) {
    return ProblemOf("{} takes square matrices in the last two dims, found {}",
                     OpcodeName(op.opcode), Text(a));
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferCholesky(Context&, const OpView& op) {
  if (Problem problem = CheckSquare(op)) return Wrong(std::move(problem));
  return op.operands[0]->bare();
}

ShapeResult InferTriangularSolve(Context&, const OpView& op) {
  if (Problem problem = CheckSquare(op)) return Wrong(std::move(problem));
  const Shape* a = op.operands[0];
  const Shape* b = op.operands[1];
  const bool left = op.as<TriangularSolveAttributes>().left_side;
  bool fits = a->dtype() == b->dtype() && a->rank() == b->rank();
  for (int64_t i = 0; fits && i + 2 < a->rank(); ++i) fits = SizesAgree(a->dim(i), b->dim(i));
  if (fits) fits = SizesAgree(b->dim(b->rank() - (left ? 2 : 1)), a->dim(a->rank() - 1));
  if (!fits) {
    return Wrong(
        "triangular-solve with {} on the {} side needs a matching right-hand side, found "
        "{}",
        Text(a), left ? "left" : "right", Text(b));
  }
  return b->bare();
}

}  // namespace gshard
