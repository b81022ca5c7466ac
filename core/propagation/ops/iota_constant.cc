// Parameters of branches and callees take what their caller passes; iotas and constants take
// whatever their users ask.
#include "core/propagation/rules.h"

namespace gshard {

void ParameterForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (const Instruction* operand = c.computations().CallerOperandOf(&x)) {
    offers.Add(c.NotMaximal(operand), operand, false);
  }
}

bool ParameterSupported(const PropagationContext& c, const Instruction& x) {
  return c.computations().CallerOf(x.parent()) != nullptr ||
         (c.parameters_allowed() && x.parent() == x.parent()->module().entry());
}

}  // namespace gshard
