// Tuples and what passes its operand on: adjoints go leaf by leaf.

#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradTuple(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  size_t leaf = 0;
  for (Instruction* operand : x->operands()) {
    for (int64_t i = 0; i < operand->shape()->leaf_count(); ++i) {
      scope.Add(operand, adjoints[leaf++], i);
    }
  }
  return {};
}

Expected<void> GradGetTupleElement(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const int64_t first = FirstLeafRead(*x);
  for (size_t i = 0; i < adjoints.size(); ++i) {
    scope.Add(x->operand(0), adjoints[i], first + static_cast<int64_t>(i));
  }
  return {};
}

// opt-barrier, domain, add-dependency: the value of operand 0.
Expected<void> GradFirstOperand(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  for (size_t i = 0; i < adjoints.size(); ++i) {
    scope.Add(x->operand(0), adjoints[i], static_cast<int64_t>(i));
  }
  return {};
}

// copy-done(copy-start(a)): a.
Expected<void> GradCopyDone(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  scope.Add(x->operand(0)->operand(0), adjoints[0]);
  return {};
}

}  // namespace gshard
