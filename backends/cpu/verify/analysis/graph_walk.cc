#include "backends/cpu/verify/analysis/graph_walk.h"

#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard::cpu {
namespace {

constexpr int kMaxNested = 16;      // of tuples within tuples
constexpr int64_t kNoElement = -1;  // instead of an element of a tuple

// Its elements are those of what it calls, which walks go into. Fusions count as one operation.
bool HandsOnResults(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kCall || opcode == Opcode::kConditional;
}

}  // namespace

GraphWalk::GraphWalk(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) callers_[called].push_back(x);
    }
  }
}

std::vector<const Instruction*> GraphWalk::Behind(const Instruction& x) const {
  std::vector<const Instruction*> out;
  switch (x.opcode()) {
    case Opcode::kParameter:
      AppendPassedIn(x, kNoElement, 0, out);
      break;
    case Opcode::kGetTupleElement:
      AppendElement(*x.operand(0), x.attributes<GetTupleElementAttributes>().index, 0, out);
      break;
    case Opcode::kCall:
    case Opcode::kConditional:
    case Opcode::kWhile:
      if (x.opcode() != Opcode::kCall) out.push_back(x.operand(0));
      for (const Computation* called : x.called()) out.push_back(called->root());
      break;
    default:  // made of its operands
      out.assign(x.operands().begin(), x.operands().end());
  }
  return out;
}

void GraphWalk::Append(const Instruction& x, int64_t index, int depth,
                       std::vector<const Instruction*>& out) const {
  if (index == kNoElement) {
    out.push_back(&x);
  } else {
    AppendElement(x, index, depth + 1, out);
  }
}

void GraphWalk::AppendElement(const Instruction& tuple, int64_t index, int depth,
                              std::vector<const Instruction*>& out) const {
  if (depth >= kMaxNested) {
    out.insert(out.end(), tuple.operands().begin(), tuple.operands().end());
    return;
  }
  switch (tuple.opcode()) {
    case Opcode::kTuple:
      out.push_back(tuple.operand(index));
      return;
    case Opcode::kParameter:
      AppendPassedIn(tuple, index, depth, out);
      return;
    case Opcode::kOptBarrier:
    case Opcode::kCopy:
      AppendElement(*tuple.operand(0), index, depth + 1, out);
      return;
    case Opcode::kWhile:
      AppendElement(*tuple.operand(0), index, depth + 1, out);
      AppendElement(*tuple.called(1)->root(), index, depth + 1, out);
      return;
    case Opcode::kCall:
    case Opcode::kConditional:
      if (tuple.opcode() == Opcode::kConditional) out.push_back(tuple.operand(0));
      for (const Computation* called : tuple.called()) {
        AppendElement(*called->root(), index, depth + 1, out);
      }
      return;
    default:  // made of its operands
      out.insert(out.end(), tuple.operands().begin(), tuple.operands().end());
  }
}

void GraphWalk::AppendPassedIn(const Instruction& parameter, int64_t index, int depth,
                               std::vector<const Instruction*>& out) const {
  const auto callers = callers_.find(parameter.parent());
  if (callers == callers_.end() || depth >= kMaxNested) return;
  const int64_t number = parameter.attributes<ParameterAttributes>().number;
  for (const Instruction* caller : callers->second) {
    if (caller->opcode() == Opcode::kWhile) {
      Append(*caller->operand(0), index, depth, out);
      Append(*caller->called(1)->root(), index, depth, out);
    } else if (caller->opcode() == Opcode::kConditional) {
      for (size_t b = 0; b < caller->called().size(); ++b) {
        if (caller->called()[b] != parameter.parent()) continue;
        Append(*caller->operand(static_cast<int64_t>(b) + 1), index, depth, out);
      }
    } else if (number < caller->operand_count()) {
      Append(*caller->operand(number), index, depth, out);
    }
  }
}

bool OnlyMoves(const Instruction& x) {
  const Opcode opcode = x.opcode();
  const Motion motion = MotionOf(opcode);
  return MovesElements(opcode) || motion == Motion::kMakes || motion == Motion::kPacks ||
         HandsOnResults(opcode) || IsCustomCallTo(x, kShardingTarget);
}

const Instruction* MovedFrom(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kTranspose:
      return x.operand(0);
    case Opcode::kGetTupleElement: {
      const Instruction& tuple = *x.operand(0);
      if (tuple.opcode() != Opcode::kTuple) return nullptr;
      return tuple.operand(x.attributes<GetTupleElementAttributes>().index);
    }
    default:  // moved by more than one instruction tells
      return IsCustomCallTo(x, kShardingTarget) ? x.operand(0) : nullptr;
  }
}

}  // namespace gshard::cpu
