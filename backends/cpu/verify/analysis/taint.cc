#include "backends/cpu/verify/analysis/taint.h"

#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard::cpu {

bool IsRandomSource(const Instruction& x) { return x.opcode() == Opcode::kRng; }

bool IsDiscreteChoice(const Instruction& x) {
  auto floats = [&] {
    return x.operand_count() > 0 && x.operand(0)->shape()->IsArray() &&
           IsFloat(x.operand(0)->shape()->dtype());
  };
  switch (x.opcode()) {
    case Opcode::kSort:
    case Opcode::kTopK:
      return floats();
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
      return x.shape()->IsTuple() && floats();
    case Opcode::kCustomCall:
      return x.attributes<CustomCallAttributes>().target == kTopKTarget;
    default:  // chooses nothing
      return false;
  }
}

bool IsElidedConstant(const Instruction& x) {
  return x.opcode() == Opcode::kConstant && HasElided(*x.attributes<ConstantAttributes>().literal);
}

Taint::Taint(const Module& module, bool (*is_source)(const Instruction&))
    : is_source_(is_source), tainted_(module.instruction_limit(), 0) {
  Walk(*module.entry(), false);
  AppendOutputs(module.entry()->root());
}

// A computation that is called more than once keeps the taint of its most tainted call.
void Taint::Walk(const Computation& computation, bool argument_tainted) {
  int& walked = walked_[&computation];
  if (walked >= (argument_tainted ? 2 : 1)) return;
  walked = argument_tainted ? 2 : 1;
  for (const Instruction* x : computation.instructions()) {
    bool tainted = x->opcode() == Opcode::kParameter ? argument_tainted : Holds(*x);
    for (const Instruction* operand : x->operands()) tainted |= Of(*operand);
    if (tainted) tainted_[x->id()] = 1;
    if (!IsControlFlow(x->opcode())) continue;
    for (size_t k = 0; k < x->called().size(); ++k) {
      const bool is_branch = x->opcode() == Opcode::kConditional;
      const bool is_loop = x->opcode() == Opcode::kWhile;
      const bool tainted_argument = is_branch ? Of(*x->operand(static_cast<int64_t>(k) + 1))
                                    : is_loop ? tainted
                                              : OperandsTainted(*x);
      Walk(*x->called()[k], tainted_argument);
    }
  }
}

bool Taint::OperandsTainted(const Instruction& x) const {
  for (const Instruction* operand : x.operands()) {
    if (Of(*operand)) return true;
  }
  return false;
}

bool Taint::Holds(const Instruction& x) {
  if (is_source_(x)) return true;
  for (const Computation* computation : x.called()) {
    if (Contains(*computation)) return true;
  }
  return false;
}

bool Taint::Contains(const Computation& computation) {
  auto [known, inserted] = contains_.insert({&computation, false});
  if (!inserted) return known->second;
  bool found = false;
  for (const Instruction* x : computation.instructions()) found = found || Holds(*x);
  return contains_[&computation] = found;
}

void Taint::AppendOutputs(const Instruction* x) {
  if (x->opcode() == Opcode::kTuple) {
    for (const Instruction* operand : x->operands()) AppendOutputs(operand);
    return;
  }
  for (int64_t i = 0; i < x->shape()->leaf_count(); ++i) outputs_.push_back(Of(*x));
}

}  // namespace gshard::cpu
