#include "core/check/condition_demand.h"

#include "ir/attributes.h"
#include "ir/computation.h"
#include "ir/leaves.h"

namespace gshard {

ConditionDemand::ConditionDemand(const Module& module)
    : wanted_(module.instruction_limit()), callers_(module.instruction_limit()) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) callers_[called->root()->id()].push_back(x);
    }
  }
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      switch (x->opcode()) {
        case Opcode::kWhile:
          Want(*x->called(0)->root(), 0);
          break;
        case Opcode::kConditional:
          Want(*x->operand(0), 0);
          break;
        case Opcode::kRaggedAllToAll:
          WantAll(*x);
          break;
        default:  // decides nothing
          break;
      }
    }
  }
  while (!open_.empty()) {
    const auto [x, leaf] = open_.back();
    open_.pop_back();
    Follow(*x, leaf);
  }
}

void ConditionDemand::Want(const Instruction& x, int64_t leaf) {
  std::vector<bool>& wanted = wanted_[x.id()];
  if (wanted.empty()) wanted.resize(static_cast<size_t>(x.shape()->leaf_count()));
  const auto at = static_cast<size_t>(leaf);
  if (at >= wanted.size() || wanted[at]) return;
  wanted[at] = true;
  open_.emplace_back(&x, leaf);
}

void ConditionDemand::WantAll(const Instruction& x) {
  for (int64_t leaf = 0; leaf < x.shape()->leaf_count(); ++leaf) Want(x, leaf);
}

void ConditionDemand::WantOperands(const Instruction& x) {
  for (const Instruction* operand : x.operands()) WantAll(*operand);
}

void ConditionDemand::Follow(const Instruction& x, int64_t leaf) {
  switch (x.opcode()) {
    case Opcode::kParameter:
      return FollowParameter(x, leaf);
    case Opcode::kTuple:
      for (const Instruction* operand : x.operands()) {
        const int64_t count = operand->shape()->leaf_count();
        if (leaf < count) return Want(*operand, leaf);
        leaf -= count;
      }
      return;
    case Opcode::kGetTupleElement:
      return Want(*x.operand(0), FirstLeafRead(x) + leaf);
    case Opcode::kOptBarrier:
      return Want(*x.operand(0), leaf);
    case Opcode::kCall:
    case Opcode::kFusion:
      return Want(*x.called(0)->root(), leaf);
    case Opcode::kWhile:
      Want(*x.operand(0), leaf);
      return Want(*x.called(1)->root(), leaf);
    case Opcode::kConditional:
      for (const Computation* branch : x.called()) Want(*branch->root(), leaf);
      return;
    default:  // made of all its operands
      WantOperands(x);
      for (const Computation* called : x.called()) WantAll(*called->root());
      return;
  }
}

void ConditionDemand::FollowParameter(const Instruction& parameter, int64_t leaf) {
  const Computation& computation = *parameter.parent();
  const int64_t number = parameter.attributes<ParameterAttributes>().number;
  for (const Instruction* caller : callers_[computation.root()->id()]) {
    switch (caller->opcode()) {
      case Opcode::kWhile:
        Want(*caller->operand(0), leaf);
        Want(*caller->called(1)->root(), leaf);
        break;
      case Opcode::kConditional:
        for (size_t b = 0; b < caller->called().size(); ++b) {
          if (caller->called()[b] == &computation) {
            Want(*caller->operand(static_cast<int64_t>(b) + 1), leaf);
          }
        }
        break;
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kAsyncStart:
        if (number < caller->operand_count()) Want(*caller->operand(number), leaf);
        break;
      default:  // a scan looks at all that it carries together
        WantOperands(*caller);
        WantAll(*computation.root());
        break;
    }
  }
}

}  // namespace gshard
