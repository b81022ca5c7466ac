#include "core/analysis/kernels/scaled_casts.h"

#include <vector>

#include "core/analysis/combiner.h"

namespace gshard {
namespace {

bool IsFloat8(const Shape* shape) {
  return shape->IsArray() && IsFloat(shape->dtype()) && DTypeBits(shape->dtype()) == 8;
}

// Is x, one number, made of a reduction in its computation?
bool FollowsFromReduce(const Instruction* x) {
  constexpr size_t kMax = 40;
  std::vector<const Instruction*> open = {x};
  for (size_t i = 0; i < open.size() && i < kMax; ++i) {
    if (open[i]->opcode() == Opcode::kReduce) return true;
    if (open[i]->opcode() == Opcode::kGetTupleElement) continue;
    open.insert(open.end(), open[i]->operands().begin(), open[i]->operands().end());
  }
  return false;
}

}  // namespace

bool IsLargestMagnitude(const Instruction* x) {
  return x->opcode() == Opcode::kReduce && x->shape()->IsArray() &&
         x->shape()->element_count() == 1 && x->operand(0)->opcode() == Opcode::kAbs &&
         CombinerOf(x->called(0)) == Opcode::kMaximum;
}

bool IsCastByKnownScale(const Instruction* x) {
  if (x->opcode() != Opcode::kConvert || !IsFloat8(x->shape())) return false;
  constexpr int kMaxLength = 8;
  const Instruction* value = x->operand(0);
  for (int i = 0; i < kMaxLength && IsElementwise(value->opcode()); ++i) {
    const Instruction* next = nullptr;
    for (const Instruction* operand : value->operands()) {
      if (operand->opcode() == Opcode::kBroadcast) {
        if (FollowsFromReduce(operand->operand(0))) return false;
      } else if (operand->shape()->rank() > 0) {
        next = operand;
      }
    }
    if (next == nullptr) break;
    value = next;
  }
  return true;
}

}  // namespace gshard
