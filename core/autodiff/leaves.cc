#include "core/autodiff/leaves.h"

#include "ir/literal.h"

namespace gshard {

int64_t FirstLeaf(const Shape* tuple, int64_t index) {
  int64_t first = 0;
  for (int64_t i = 0; i < index; ++i) first += tuple->element(i)->leaf_count();
  return first;
}

bool IsDifferentiable(const Shape* leaf) {
  return leaf->IsArray() && (IsFloat(leaf->dtype()) || IsComplex(leaf->dtype()));
}

Instruction* LeafValue(Builder& builder, Instruction* x, int64_t leaf) {
  while (x->shape()->IsTuple()) {
    int64_t element = 0;
    for (; leaf >= x->shape()->element(element)->leaf_count(); ++element) {
      leaf -= x->shape()->element(element)->leaf_count();
    }
    x = builder.GetTupleElement(x, element);
  }
  return x;
}

std::vector<Instruction*> LeafValues(Builder& builder, Instruction* x) {
  std::vector<Instruction*> leaves;
  for (int64_t i = 0; i < x->shape()->leaf_count(); ++i) {
    leaves.push_back(LeafValue(builder, x, i));
  }
  return leaves;
}

Instruction* FromLeaves(Builder& builder, const Shape* shape,
                        std::span<Instruction* const> leaves) {
  if (!shape->IsTuple()) return leaves[0];
  std::vector<Instruction*> elements;
  size_t first = 0;
  for (const Shape* element : shape->elements()) {
    elements.push_back(FromLeaves(builder, element, leaves.subspan(first)));
    first += At(element->leaf_count());
  }
  return builder.Tuple(elements);
}

std::optional<ParameterLeaf> ParameterLeafOf(const Instruction* x) {
  if (x->opcode() == Opcode::kParameter) {
    return ParameterLeaf{x->attributes<ParameterAttributes>().number, 0};
  }
  if (x->opcode() != Opcode::kGetTupleElement) return std::nullopt;
  std::optional<ParameterLeaf> of = ParameterLeafOf(x->operand(0));
  if (of) {
    of->leaf += FirstLeaf(x->operand(0)->shape(), x->attributes<GetTupleElementAttributes>().index);
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
