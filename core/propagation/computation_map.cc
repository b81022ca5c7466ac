#include "core/propagation/computation_map.h"

#include "ir/op_traits.h"

namespace gshard {
namespace {

// Fusions and asynchronous computations are shut to propagation.
bool IsMappedCaller(Opcode opcode) {
  return IsControlFlow(opcode) && opcode != Opcode::kFusion && opcode != Opcode::kAsyncStart;
}

}  // namespace

ComputationMap::ComputationMap(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (!IsMappedCaller(x->opcode())) continue;
      for (const Computation* called : x->called()) callers_[called] = x;
    }
  }
}

Instruction* ComputationMap::CallerOperandOf(const Instruction* parameter) const {
  if (parameter->opcode() != Opcode::kParameter) return nullptr;
  Instruction* caller = CallerOf(parameter->parent());
  if (caller == nullptr) return nullptr;
  if (caller->opcode() == Opcode::kCall) {
    int64_t number = parameter->attributes<ParameterAttributes>().number;
    return number < caller->operand_count() ? caller->operand(number) : nullptr;
  }
  if (caller->opcode() != Opcode::kConditional) return nullptr;
  for (int64_t i = 0; i < static_cast<int64_t>(caller->called().size()); ++i) {
    if (caller->called(i) == parameter->parent()) return caller->operand(i + 1);
  }
  return nullptr;
}

void ComputationMap::AppendParametersOf(const Instruction* caller, const Instruction* operand,
                                        std::vector<Instruction*>& out) const {
  if (caller->opcode() == Opcode::kCall) {
    const Computation* callee = caller->called(0);
    for (int64_t i = 0; i < caller->operand_count() && i < callee->parameter_count(); ++i) {
      if (caller->operand(i) == operand) out.push_back(callee->parameter(i));
    }
  } else if (caller->opcode() == Opcode::kConditional) {
    for (int64_t i = 0; i < static_cast<int64_t>(caller->called().size()); ++i) {
      if (caller->operand(i + 1) == operand && caller->called(i)->parameter_count() == 1) {
        out.push_back(caller->called(i)->parameter(0));
      }
    }
  }
}

std::vector<Instruction*> ComputationMap::RelatedSetOf(Instruction* caller) {
  switch (caller->opcode()) {
    case Opcode::kWhile: {
      const Computation* condition = caller->called(0);
      const Computation* body = caller->called(1);
      return {caller, body->root(), body->parameter(0), condition->parameter(0)};
    }
    case Opcode::kConditional:
    case Opcode::kCall: {
      std::vector<Instruction*> set = {caller};
      for (const Computation* called : caller->called()) set.push_back(called->root());
      return set;
    }
    default:  // not one of IsMappedCaller
      return {};
  }
}

bool ComputationMap::MayHaveRelated(const Instruction* x) const {
  return IsMappedCaller(x->opcode()) || x->opcode() == Opcode::kParameter ||
         x == x->parent()->root();
}

std::vector<Instruction*> ComputationMap::RelatedTo(Instruction* x) const {
  std::vector<Instruction*> related;
  auto add_set = [&](Instruction* caller) {
    for (Instruction* member : RelatedSetOf(caller)) {
      if (member != x) related.push_back(member);
    }
  };
  if (IsMappedCaller(x->opcode())) add_set(x);
  bool is_root = x == x->parent()->root();
  bool is_parameter = x->opcode() == Opcode::kParameter;
  if (!is_root && !is_parameter) return related;
  Instruction* caller = CallerOf(x->parent());
  if (caller == nullptr) return related;
  if (caller->opcode() == Opcode::kWhile) {
    // The condition's root is a scalar of its own.
    if (is_parameter || x->parent() == caller->called(1)) add_set(caller);
  } else {
    if (is_root) add_set(caller);
    if (Instruction* operand = CallerOperandOf(x)) related.push_back(operand);
  }
  return related;
}

}  // namespace gshard
