// reshape, bitcast: the adjoint in the operand's shape.

#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradReshape(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  scope.Add(x->operand(0), scope.builder().Reshape(adjoints[0], x->operand(0)->shape()->dims()));
  return {};
}

// The same bytes under another shape; of another element type they have no derivative.
Expected<void> GradBitcast(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const Shape* from = x->operand(0)->shape();
  if (from->dtype() != x->shape()->dtype()) return {};
  Builder& b = scope.builder();
  if (from->layout() == nullptr && x->shape()->layout() == nullptr) {
    scope.Add(x->operand(0), b.Reshape(adjoints[0], from->dims()));
    return {};
  }
  // Which element goes where is said by the layouts.
  Instruction* laid_out = b.Add(Opcode::kCopy, {adjoints[0]}, x->shape());
  scope.Add(x->operand(0), b.Add(Opcode::kBitcast, {laid_out}, from));
  return {};
}

}  // namespace gshard
