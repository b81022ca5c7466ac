#include "ir/op_traits.h"

#include <algorithm>

#include "ir/computation.h"
#include "ir/custom_call.h"

namespace gshard {
namespace {

bool IsPure(const Instruction& x) {
  const Purity purity = PurityOf(x.opcode());
  return purity == Purity::kByAttribute ? !HasSideEffect(x) : purity == Purity::kPure;
}

}  // namespace

bool IsTranscendental(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kAtan2:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return true;
    case Opcode::kPower:
      return !IsInteger(x.shape()->dtype());
    default:  // those that have an accuracy
      return AttributeTagOf(x.opcode()) == &AttributeType<MathAttributes>::kTag;
  }
}

bool HasSideEffect(const Instruction& x) {
  if (PurityOf(x.opcode()) != Purity::kByAttribute) {
    return PurityOf(x.opcode()) == Purity::kSideEffect;
  }
  const auto& call = x.attributes<CustomCallAttributes>();
  return call.has_side_effect && !IsPlacementHint(call.target);
}

bool MayBeRepeated(const Instruction& x) {
  if (!IsPure(x) || IsCollective(x.opcode()) || !x.control_predecessors().empty()) return false;
  return std::ranges::all_of(x.called(), [](const Computation* called) {
    return std::ranges::all_of(called->instructions(), [](const Instruction* inner) {
      return inner->opcode() == Opcode::kParameter || MayBeRepeated(*inner);
    });
  });
}

}  // namespace gshard
