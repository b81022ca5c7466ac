// Elementwise operations: one operation an element; transcendental functions counted apart.

#include "core/cost/rules.h"
#include "ir/computation.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Copies and reinterpretations compute nothing.
bool IsFree(Opcode opcode) {
  return opcode == Opcode::kCopy || opcode == Opcode::kBitcastConvert ||
         opcode == Opcode::kConvert || opcode == Opcode::kReal || opcode == Opcode::kImag ||
         opcode == Opcode::kComplex || opcode == Opcode::kSelect;
}

}  // namespace

double ScalarComputationFlops(const Computation& computation) {
  double flops = 0;
  for (const Instruction* instruction : computation.instructions()) {
    if (IsElementwise(instruction->opcode()) && !IsFree(instruction->opcode())) flops += 1;
  }
  return flops;
}

OpCost ElementwiseCost(const Instruction& instruction) {
  double elements = static_cast<double>(instruction.shape()->element_count());
  if (instruction.opcode() == Opcode::kMap) {
    return {.flops = elements * ScalarComputationFlops(*instruction.called(0))};
  }
  switch (instruction.opcode()) {
    case Opcode::kSelect:
    case Opcode::kCompare:
    case Opcode::kConvert:
      return {.other_ops = elements};
    default:
      break;
  }
  if (IsFree(instruction.opcode())) return {};
  if (IsTranscendental(instruction)) return {.transcendentals = elements};
  bool is_float = IsFloat(instruction.shape()->dtype()) || IsComplex(instruction.shape()->dtype());
  if (is_float) return {.flops = elements};
  return {.other_ops = elements};
}

OpCost MovementCost(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kAfterAll:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kReshape:
    case Opcode::kBitcast:
      return {.bytes = 0, .has_bytes = true};  // nothing moves
    case Opcode::kIota:
      return {.bytes = static_cast<double>(instruction.shape()->byte_size()), .has_bytes = true};
    default:
      return {};
  }
}

OpCost NoCost(const Instruction&) { return {.bytes = 0, .has_bytes = true}; }

}  // namespace gshard
