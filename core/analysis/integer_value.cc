#include "core/analysis/integer_value.h"

#include <array>

#include "core/analysis/integer_elements.h"
#include "ir/custom_call.h"
#include "ir/integer_operation.h"
#include "ir/literal.h"

namespace gshard {

std::optional<int64_t> IntegerValues::Evaluate(const Instruction* x, int depth) {
  if (!x->shape()->IsArray() || x->shape()->element_count() != 1) return std::nullopt;
  DTypeClass type = ClassOf(x->shape()->dtype());
  if (type == DTypeClass::kFloat || type == DTypeClass::kComplex) return std::nullopt;
  if (x->opcode() == Opcode::kConstant) {
    const Literal* literal = x->attributes<ConstantAttributes>().literal;
    if (literal->elided) return std::nullopt;
    return ElementAsInt64(*literal, 0);
  }
  auto it = known_.find(x);
  if (it != known_.end()) return it->second;
  if (depth > kDeepest) return std::nullopt;
  std::optional<int64_t> value = Compute(x, depth + 1);
  known_[x] = value;
  return value;
}

std::optional<int64_t> IntegerValues::Compute(const Instruction* x, int depth) {
  switch (x->opcode()) {
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
    case Opcode::kOptBarrier:
      return Evaluate(x->operand(0), depth);
    case Opcode::kSlice: {
      const Instruction* table = x->operand(0);
      if (table->opcode() != Opcode::kConstant) return std::nullopt;
      const Literal* literal = table->attributes<ConstantAttributes>().literal;
      if (literal->elided) return std::nullopt;
      const Dims starts = x->attributes<SliceAttributes>().starts;
      return ElementAsInt64(*literal, RowMajor(table->shape()->dims(), starts));
    }
    case Opcode::kCustomCall:
      if (!IsIdentityCall(*x) || x->operand_count() != 1) return std::nullopt;
      return Evaluate(x->operand(0), depth);
    case Opcode::kBitcast: {
      std::optional<int64_t> bits = Evaluate(x->operand(0), depth);
      return bits ? std::optional(WrapToType(*bits, x->shape()->dtype())) : std::nullopt;
    }
    case Opcode::kGetTupleElement: {
      const Instruction* tuple = x->operand(0);
      while (tuple->opcode() == Opcode::kOptBarrier || tuple->opcode() == Opcode::kCopy) {
        tuple = tuple->operand(0);
      }
      if (tuple->opcode() != Opcode::kTuple) return std::nullopt;
      return Evaluate(tuple->operand(x->attributes<GetTupleElementAttributes>().index), depth);
    }
    case Opcode::kSelect: {
      // What is not taken need not be known.
      std::optional<int64_t> predicate = Evaluate(x->operand(0), depth);
      if (!predicate) return std::nullopt;
      return Evaluate(x->operand(*predicate != 0 ? 1 : 2), depth);
    }
    default:  // arithmetic, below
      break;
  }
  if (!IsIntegerOperation(x->opcode())) return std::nullopt;
  std::array<int64_t, 3> operands{};
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    std::optional<int64_t> value = Evaluate(x->operand(i), depth);
    if (!value) return std::nullopt;
    operands[static_cast<size_t>(i)] = *value;
  }
  return EvaluateInteger(*x, operands);
}

std::optional<int64_t> ConstantScalar(const Instruction* instruction) {
  return IntegerValues().Evaluate(instruction);
}

}  // namespace gshard
