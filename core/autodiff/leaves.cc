#include "core/autodiff/leaves.h"

#include "ir/literal.h"

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

std::optional<double> ConstantValue(const Instruction* x) {
  while (x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kConvert ||
         x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kCopy) {
    x = x->operand(0);
  }
  if (x->opcode() != Opcode::kConstant || !x->shape()->IsArray()) return std::nullopt;
  const Literal& literal = *x->attributes<ConstantAttributes>().literal;
  if (literal.elided || !IsSplat(literal) || IsComplex(x->shape()->dtype())) return std::nullopt;
  if (IsFloat(x->shape()->dtype())) return ElementAsDouble(literal, 0);
  return static_cast<double>(ElementAsInt64(literal, 0));
}

}  // namespace gshard
