#include "core/analysis/attention/position_values.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/analysis/integer_elements.h"
#include "ir/literal.h"

namespace gshard {
namespace {

bool IsInteger(const Shape* shape) {
  return !IsFloat(shape->dtype()) && !IsComplex(shape->dtype());
}

std::optional<double> Compared(ComparisonDirection direction, double a, double b) {
  switch (direction) {
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
}

std::optional<double> UnaryValue(const Instruction* x, double a) {
  switch (x->opcode()) {
    case Opcode::kAbs:
      return std::fabs(a);
    case Opcode::kNegate:
      return -a;
    case Opcode::kSign:
      return static_cast<double>(a > 0) - static_cast<double>(a < 0);
    case Opcode::kFloor:
      return std::floor(a);
    case Opcode::kCeil:
      return std::ceil(a);
    case Opcode::kNot:
      if (x->shape()->dtype() == DType::kPred) return a == 0;
      return std::nullopt;
    case Opcode::kConvert:
    case Opcode::kReducePrecision:
    case Opcode::kCopy:
      if (x->shape()->dtype() == DType::kPred) return a != 0;
      return IsInteger(x->shape()) ? std::trunc(a) : a;
    default:  // no mask is made by others
      return std::nullopt;
  }
}

std::optional<double> BinaryValue(const Instruction* x, double a, double b) {
  const bool is_pred = x->shape()->dtype() == DType::kPred;
  switch (x->opcode()) {
    case Opcode::kAdd:
      return a + b;
    case Opcode::kSubtract:
      return a - b;
    case Opcode::kMultiply:
      return a == 0 || b == 0 ? 0 : a * b;
    case Opcode::kDivide:
      if (b == 0) return std::nullopt;
      return IsInteger(x->shape()) ? std::trunc(a / b) : a / b;
    case Opcode::kRemainder:
      if (b == 0) return std::nullopt;
      return std::fmod(a, b);
    case Opcode::kMaximum:
      return std::max(a, b);
    case Opcode::kMinimum:
      return std::min(a, b);
    case Opcode::kCompare:
      return Compared(x->attributes<CompareAttributes>().direction, a, b);
    case Opcode::kAnd:
      if (is_pred) return a != 0 && b != 0;
      return std::nullopt;
    case Opcode::kOr:
      if (is_pred) return a != 0 || b != 0;
      return std::nullopt;
    case Opcode::kXor:
      if (is_pred) return (a != 0) != (b != 0);
      return std::nullopt;
    default:  // no mask is made by others
      return std::nullopt;
  }
}

// The value of a pred operation of which one operand is known.
std::optional<double> Decided(const Instruction* x, double known) {
  if (x->opcode() == Opcode::kAnd && known == 0) return 0;
  if (x->opcode() == Opcode::kOr && known != 0) return 1;
  return std::nullopt;
}

// Moves or repeats elements, and nothing else.
bool IsMove(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
      return true;
    default:  // it computes, or takes from several arrays
      return false;
  }
}

}  // namespace

std::optional<double> PositionValues::At(const Instruction* x, const Index& index) {
  operations_left_ = kMaxOperations;
  return Evaluate(x, index, 0);
}

std::optional<double> PositionValues::Evaluate(const Instruction* x, const Index& index,
                                               int depth) {
  x = carried_.Origin(x);
  if (--operations_left_ < 0 || depth > kDeepest || !x->shape()->IsArray() ||
      x->shape()->rank() > kMaxRank) {
    return std::nullopt;
  }
  if (x->opcode() == Opcode::kIota) {
    return static_cast<double>(
        index[static_cast<size_t>(x->attributes<IotaAttributes>().dimension)]);
  }
  if (x->opcode() == Opcode::kConstant) {
    const Literal& literal = *x->attributes<ConstantAttributes>().literal;
    if (literal.elided || IsComplex(x->shape()->dtype())) return std::nullopt;
    return ElementAsDouble(literal, RowMajor(x->shape()->dims(), index));
  }
  if (IsMove(x->opcode())) return EvaluateMoved(x, index, depth);
  if (IsElementwise(x->opcode())) return EvaluateElementwise(x, index, depth);
  return std::nullopt;
}

std::optional<double> PositionValues::EvaluateMoved(const Instruction* x, const Index& index,
                                                    int depth) {
  const Instruction* operand = x->operand(0);
  switch (x->opcode()) {
    case Opcode::kBroadcast: {
      Index from;
      for (int64_t dim : x->attributes<DimensionsAttributes>().dimensions)
        from.push_back(index[static_cast<size_t>(dim)]);
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kReshape:
    case Opcode::kBitcast: {
      const Shape* shape = operand->shape();
      if (shape->element_count() != x->shape()->element_count() || shape->rank() > kMaxRank) {
        return std::nullopt;
      }
      int64_t at = RowMajor(x->shape()->dims(), index);
      Index from(static_cast<size_t>(shape->rank()));
      for (int64_t dim = shape->rank(); dim-- > 0; at /= shape->dim(dim)) {
        from[static_cast<size_t>(dim)] = at % shape->dim(dim);
      }
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kTranspose: {
      const auto& order = x->attributes<DimensionsAttributes>().dimensions;
      Index from(index.size());
      for (size_t i = 0; i < index.size(); ++i) from[static_cast<size_t>(order[i])] = index[i];
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kSlice: {
      const auto& slice = x->attributes<SliceAttributes>();
      Index from(index.size());
      for (size_t i = 0; i < index.size(); ++i)
        from[i] = slice.starts[i] + index[i] * slice.strides[i];
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kDynamicSlice:
      if (const Instruction* stored = carried_.StoredSlice(x)) {
        return Evaluate(stored, index, depth + 1);
      }
      return std::nullopt;
    default:  // IsMove has no others
      return std::nullopt;
  }
}

std::optional<double> PositionValues::EvaluateElementwise(const Instruction* x, const Index& index,
                                                          int depth) {
  if (x->opcode() == Opcode::kSelect) {
    const Shape* pred = x->operand(0)->shape();
    std::optional<double> chosen =
        Evaluate(x->operand(0), pred->rank() == 0 ? Index() : index, depth + 1);
    if (!chosen) return std::nullopt;
    return Evaluate(x->operand(*chosen != 0 ? 1 : 2), index, depth + 1);
  }
  if (x->operand_count() == 1) {
    std::optional<double> a = Evaluate(x->operand(0), index, depth + 1);
    return a ? UnaryValue(x, *a) : std::nullopt;
  }
  if (x->operand_count() != 2) return std::nullopt;
  std::optional<double> a = Evaluate(x->operand(0), index, depth + 1);
  std::optional<double> b = Evaluate(x->operand(1), index, depth + 1);
  if (a && b) return BinaryValue(x, *a, *b);
  if (x->shape()->dtype() == DType::kPred && (a || b)) return Decided(x, a ? *a : *b);
  return std::nullopt;
}

std::optional<std::vector<const Instruction*>> PositionValues::Sources(const Instruction* x,
                                                                       int64_t most) const {
  std::vector<const Instruction*> sources;
  std::unordered_set<const Instruction*> seen;
  std::vector<const Instruction*> pending = {x};
  while (!pending.empty()) {
    const Instruction* value = carried_.Origin(pending.back());
    pending.pop_back();
    if (!seen.insert(value).second) continue;
    const Opcode opcode = value->opcode();
    if (opcode == Opcode::kIota || opcode == Opcode::kConstant) continue;
    if (!value->shape()->IsArray()) return std::nullopt;
    const bool is_part = opcode == Opcode::kSlice || opcode == Opcode::kDynamicSlice;
    const Instruction* stored =
        opcode == Opcode::kDynamicSlice ? carried_.StoredSlice(value) : nullptr;
    const bool is_small = value->shape()->element_count() <= most;
    const bool is_made_of_operands =
        value->operand_count() > 0 && (IsElementwise(opcode) || IsMove(opcode)) &&
        opcode != Opcode::kGetTupleElement && opcode != Opcode::kDynamicSlice;
    if (stored != nullptr) {
      pending.push_back(stored);
    } else if (is_made_of_operands && !(is_part && is_small)) {
      pending.insert(pending.end(), value->operands().begin(), value->operands().end());
    } else if (is_small) {
      sources.push_back(value);
    } else {
      return std::nullopt;
    }
  }
  return sources;
}

}  // namespace gshard
