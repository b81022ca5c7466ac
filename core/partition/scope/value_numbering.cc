#include "core/partition/scope/value_numbering.h"

#include <algorithm>

#include "ir/attribute_equality.h"
#include "ir/equality.h"
#include "ir/hash.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Operations that are what their operands and attributes say, and more than a name for operands.
bool IsNumbered(const Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  const bool is_loop_or_call = IsControlFlow(opcode) && opcode != Opcode::kFusion;
  return !is_loop_or_call && opcode != Opcode::kTuple && MayBeRepeated(instruction);
}

// What the sharding adds to the meaning of an instruction. Values made from nothing are made anew
// in every layout, so only the border of a manual region tells them apart.
const Sharding* PlaceOf(const Instruction& instruction) {
  const Sharding* sharding = instruction.sharding();
  if (sharding == nullptr) return nullptr;
  bool is_made = instruction.opcode() == Opcode::kConstant || instruction.opcode() == Opcode::kIota;
  bool is_manual = sharding->IsManual() || (sharding->IsTiled() && sharding->HasManualSubgroup());
  return is_made && !is_manual ? nullptr : sharding->canonical;
}

// Layouts are a matter of taste except to operations that reinterpret memory.
const Shape* ShapeOf(const Instruction& instruction) {
  Opcode opcode = instruction.opcode();
  bool sees_layout = opcode == Opcode::kBitcast || opcode == Opcode::kCustomCall;
  return sees_layout ? instruction.shape() : instruction.shape()->bare();
}

}  // namespace

bool ValueNumbering::IsEqual(const Instruction& a, const Instruction& b) const {
  return ShapeOf(a) == ShapeOf(b) && PlaceOf(a) == PlaceOf(b) &&
         std::equal(a.operands().begin(), a.operands().end(), b.operands().begin(),
                    b.operands().end(),
                    [&](const Instruction* x, const Instruction* y) {
                      return value_of_[x->id()] == value_of_[y->id()];
                    }) &&
         SameOperation(a, b);
}

PartitionedValue* ValueNumbering::Find(const Instruction& instruction) {
  if (!IsNumbered(instruction)) return nullptr;
  hash_ = HashOfAttributes(instruction);
  hash_ = HashPointer(HashPointer(hash_, ShapeOf(instruction)), PlaceOf(instruction));
  for (const Instruction* operand : instruction.operands()) {
    hash_ = HashPointer(hash_, value_of_[operand->id()]);
  }
  auto found = seen_.find(hash_);
  if (found == seen_.end() || !IsEqual(instruction, *found->second)) return nullptr;
  return value_of_[found->second->id()];
}

void ValueNumbering::Add(const Instruction& instruction) {
  if (IsNumbered(instruction)) seen_.insert_or_assign(hash_, &instruction);
}

}  // namespace gshard
