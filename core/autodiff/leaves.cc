#include "core/autodiff/leaves.h"

namespace gshard {

bool IsDifferentiable(const Shape* leaf) {
  return leaf->IsArray() && (IsFloat(leaf->dtype()) || IsComplex(leaf->dtype()));
}

std::optional<ParameterLeaf> ParameterLeafOf(const Instruction* x) {
  if (x->opcode() == Opcode::kParameter) {
    return ParameterLeaf{x->attributes<ParameterAttributes>().number, 0};
  }
  if (x->opcode() != Opcode::kGetTupleElement) return std::nullopt;
  std::optional<ParameterLeaf> of = ParameterLeafOf(x->operand(0));
  if (of) {
    of->leaf += FirstLeafRead(*x);
  }
  return of;
}

}  // namespace gshard
