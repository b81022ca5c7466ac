#include "core/pipeline/integer_value.h"

#include <algorithm>

#include "ir/literal.h"

namespace gshard::pipeline {

std::optional<int64_t> IntegerValues::Evaluate(const Instruction* x) {
  if (!x->shape()->IsArray() || x->shape()->element_count() != 1) return std::nullopt;
  DTypeClass type = ClassOf(x->shape()->dtype());
  if (type == DTypeClass::kFloat || type == DTypeClass::kComplex) return std::nullopt;
  auto it = known_.find(x);
  if (it != known_.end()) return it->second;
  std::optional<int64_t> value = Compute(x);
  known_[x] = value;
  return value;
}

std::optional<int64_t> IntegerValues::Compute(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kConstant: {
      const Literal* literal = x->attributes<ConstantAttributes>().literal;
      if (literal->elided) return std::nullopt;
      return ElementAsInt64(*literal, 0);
    }
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
    case Opcode::kConvert:
      return Evaluate(x->operand(0));
    case Opcode::kSelect: {
      std::optional<int64_t> predicate = Evaluate(x->operand(0));
      if (!predicate) return std::nullopt;
      return Evaluate(x->operand(*predicate != 0 ? 1 : 2));
    }
    case Opcode::kClamp: {
      std::optional<int64_t> low = Evaluate(x->operand(0)), value = Evaluate(x->operand(1)),
                             high = Evaluate(x->operand(2));
      if (!low || !value || !high) return std::nullopt;
      return std::min(std::max(*value, *low), *high);
    }
    default:
      break;
  }
  if (x->operand_count() != 2) return std::nullopt;
  std::optional<int64_t> a = Evaluate(x->operand(0)), b = Evaluate(x->operand(1));
  if (!a || !b) return std::nullopt;
  return Binary(x, *a, *b);
}

std::optional<int64_t> IntegerValues::Binary(const Instruction* x, int64_t a, int64_t b) const {
  int64_t result = 0;
  switch (x->opcode()) {
    case Opcode::kAdd:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Opcode::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Opcode::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Opcode::kMaximum:
      return std::max(a, b);
    case Opcode::kMinimum:
      return std::min(a, b);
    case Opcode::kAnd:
      return a & b;
    case Opcode::kOr:
      return a | b;
    case Opcode::kCompare:
      switch (x->attributes<CompareAttributes>().direction) {
        case ComparisonDirection::kEq:
          return a == b;
        case ComparisonDirection::kNe:
          return a != b;
        case ComparisonDirection::kLt:
          return a < b;
        case ComparisonDirection::kLe:
          return a <= b;
        case ComparisonDirection::kGt:
          return a > b;
        case ComparisonDirection::kGe:
          return a >= b;
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace gshard::pipeline
