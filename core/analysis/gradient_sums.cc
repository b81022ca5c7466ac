#include "core/analysis/gradient_sums.h"

namespace gshard {
namespace {

bool IsCastOrReshape(const Instruction* x) {
  return x->opcode() == Opcode::kConvert || x->opcode() == Opcode::kReshape ||
         x->opcode() == Opcode::kBitcast;
}

// What x is a cast or another shape of.
const Instruction* Source(const Instruction* x) {
  while (IsCastOrReshape(x)) x = x->operand(0);
  return x;
}

// What a loop carries into x's computation, or rows of it.
bool IsCarried(const Instruction* x) {
  x = Source(x);
  if (x->opcode() == Opcode::kDynamicSlice) x = Source(x->operand(0));
  return x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kParameter;
}

// A product, or a loop's stack of its turns' products.
bool MakesProducts(const Instruction* x) {
  x = Source(x);
  if (x->opcode() == Opcode::kDot) return true;
  if (x->opcode() != Opcode::kGetTupleElement || x->operand(0)->opcode() != Opcode::kWhile) {
    return false;
  }
  const Instruction* carried = x->operand(0)->called(1)->root();
  if (carried->opcode() != Opcode::kTuple) return false;
  const Instruction* stack = carried->operand(x->attributes<GetTupleElementAttributes>().index);
  return stack->opcode() == Opcode::kDynamicUpdateSlice &&
         Source(stack->operand(1))->opcode() == Opcode::kDot;
}

bool IsAddition(const Instruction* x) {
  return x->opcode() == Opcode::kAdd && x->shape()->IsArray() && IsFloat(x->shape()->dtype()) &&
         ((IsCarried(x->operand(0)) && MakesProducts(x->operand(1))) ||
          (IsCarried(x->operand(1)) && MakesProducts(x->operand(0))));
}

}  // namespace

bool IsSumWithProduct(const Instruction* x) {
  if (x->opcode() == Opcode::kDynamicUpdateSlice) {
    return IsCarried(x->operand(0)) && IsAddition(Source(x->operand(1)));
  }
  return IsAddition(x);
}

bool IsAddedToCarried(const Instruction& x, const Users& users) {
  const Instruction* term = &x;
  while (users.of(term).size() == 1) {
    const Instruction* user = users.of(term)[0];
    if (user->opcode() == Opcode::kAdd) {
      return IsCarried(user->operand(user->operand(0) == term ? 1 : 0));
    }
    if (!IsCastOrReshape(user)) return false;
    term = user;
  }
  return false;
}

}  // namespace gshard
