// Elementwise ops, map: every operand and the result are tiled alike.
#include "core/propagation/rules.h"
#include "ir/shape.h"

namespace gshard {
namespace {

bool IsIdentityMap(const Instruction& x) {
  Dims dims = x.attributes<DimensionsAttributes>().dimensions;
  if (dims.empty()) return true;
  if (static_cast<int64_t>(dims.size()) != x.shape()->rank()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool OnlyFirstOperandAtLevel0(Opcode opcode) {
  switch (opcode) {
    case Opcode::kPower:
    case Opcode::kMap:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
      return true;
    default:
      return false;
  }
}

// Scalars beside arrays (clamp bounds, select predicates) say nothing about tiles.
const Sharding* Fitting(const Sharding* s, const Instruction& x, const Instruction& operand) {
  if (s == nullptr || !s->IsTiled()) return s;
  return operand.shape()->rank() == x.shape()->rank() ? s : nullptr;
}

}  // namespace

bool CountsAsElementwise(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kConstant:
    case Opcode::kRng:
      return true;
    case Opcode::kMap:
      return IsIdentityMap(x);
    case Opcode::kBitcastConvert:
      return x.operand(0)->shape()->rank() == x.shape()->rank();
    case Opcode::kFusion:
      if (x.called().empty()) return false;
      for (const Instruction* inner : x.called(0)->instructions()) {
        if (inner->opcode() != Opcode::kParameter && !CountsAsElementwise(*inner)) return false;
      }
      return true;
    default:
      return IsElementwise(x.opcode());
  }
}

bool ElementwiseSupported(const PropagationContext&, const Instruction& x) {
  return CountsAsElementwise(x);
}

bool FusionSupported(const PropagationContext&, const Instruction& x) {
  return CountsAsElementwise(x);
}

void ElementwiseForward(const PropagationContext& c, const Instruction& x, Offers& offers) {
  if (c.level() == 0) {
    if (OnlyFirstOperandAtLevel0(x.opcode())) {
      offers.Add(Fitting(c.NotMaximal(x.operand(0)), x, *x.operand(0)), x.operand(0), true);
    } else if (const Instruction* best = MostSpecificOperand(c, x)) {
      offers.Add(Fitting(c.of(best), x, *best), best, true);
    }
    return;
  }
  for (const Instruction* operand : x.operands()) {
    offers.Add(Fitting(c.NotMaximal(operand), x, *operand), operand, x.operand_count() == 1);
  }
}

}  // namespace gshard
