#include "core/analysis/attention/position_values.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

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

// The place of each position in the array's row-major order.
std::vector<int64_t> RowMajorOf(const Shape* shape, const PositionValues::Positions& positions) {
  std::vector<int64_t> at(positions.count);
  for (size_t dim = 0; dim < positions.rank; ++dim) {
    const int64_t size = shape->dim(static_cast<int64_t>(dim));
    for (size_t i = 0; i < at.size(); ++i) at[i] = at[i] * size + positions.dims[dim][i];
  }
  return at;
}

PositionValues::Elements Unknown(size_t count) {
  return {std::vector<double>(count), std::vector<uint8_t>(count)};
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

PositionValues::Elements PositionValues::At(const Instruction* x, const Positions& positions) {
  operations_left_ = kMaxOperations;
  columns_.clear();
  return Evaluate(x, positions, 0);
}

PositionValues::Elements PositionValues::Evaluate(const Instruction* x, const Positions& positions,
                                                  int depth) {
  x = carried_.Origin(x);
  if (--operations_left_ < 0 || depth > kDeepest || !x->shape()->IsArray() ||
      x->shape()->rank() > kMaxRank) {
    return Unknown(positions.count);
  }
  if (x->opcode() == Opcode::kIota) {
    const int64_t* along =
        positions.dims[static_cast<size_t>(x->attributes<IotaAttributes>().dimension)];
    return {std::vector<double>(along, along + positions.count),
            std::vector<uint8_t>(positions.count, 1)};
  }
  if (x->opcode() == Opcode::kConstant) {
    const Literal& literal = *x->attributes<ConstantAttributes>().literal;
    Elements elements = Unknown(positions.count);
    if (literal.elided || IsComplex(x->shape()->dtype())) return elements;
    std::ranges::fill(elements.known, 1);
    if (positions.rank == 0) {
      std::ranges::fill(elements.values, ElementAsDouble(literal, 0));
      return elements;
    }
    const std::vector<int64_t> at = RowMajorOf(x->shape(), positions);
    for (size_t i = 0; i < at.size(); ++i) elements.values[i] = ElementAsDouble(literal, at[i]);
    return elements;
  }
  if (IsMove(x->opcode())) return EvaluateMoved(x, positions, depth);
  if (IsElementwise(x->opcode())) return EvaluateElementwise(x, positions, depth);
  return Unknown(positions.count);
}

PositionValues::Elements PositionValues::EvaluateMoved(const Instruction* x,
                                                       const Positions& positions, int depth) {
  const Instruction* operand = x->operand(0);
  Positions from{positions.count, static_cast<size_t>(operand->shape()->rank())};
  switch (x->opcode()) {
    case Opcode::kBroadcast: {
      const auto& dims = x->attributes<DimensionsAttributes>().dimensions;
      for (size_t i = 0; i < dims.size(); ++i) {
        from.dims[i] = positions.dims[static_cast<size_t>(dims[i])];
      }
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kReshape:
    case Opcode::kBitcast: {
      const Shape* shape = operand->shape();
      if (shape->element_count() != x->shape()->element_count() || shape->rank() > kMaxRank) {
        return Unknown(positions.count);
      }
      std::vector<int64_t> rest = RowMajorOf(x->shape(), positions);
      for (size_t dim = from.rank; dim-- > 0;) {
        const int64_t size = shape->dim(static_cast<int64_t>(dim));
        std::vector<int64_t>& column = Column(positions.count);
        for (size_t i = 0; i < rest.size(); ++i) {
          column[i] = rest[i] % size;
          rest[i] /= size;
        }
        from.dims[dim] = column.data();
      }
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kTranspose: {
      const auto& order = x->attributes<DimensionsAttributes>().dimensions;
      for (size_t i = 0; i < order.size(); ++i) {
        from.dims[static_cast<size_t>(order[i])] = positions.dims[i];
      }
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kSlice: {
      const auto& slice = x->attributes<SliceAttributes>();
      for (size_t dim = 0; dim < from.rank; ++dim) {
        std::vector<int64_t>& column = Column(positions.count);
        for (size_t i = 0; i < column.size(); ++i) {
          column[i] = slice.starts[dim] + positions.dims[dim][i] * slice.strides[dim];
        }
        from.dims[dim] = column.data();
      }
      return Evaluate(operand, from, depth + 1);
    }
    case Opcode::kDynamicSlice:
      if (const Instruction* stored = carried_.StoredSlice(x)) {
        return Evaluate(stored, positions, depth + 1);
      }
      return Unknown(positions.count);
    default:  // IsMove has no others
      return Unknown(positions.count);
  }
}

// Only the operands that are chosen somewhere are evaluated.
PositionValues::Elements PositionValues::EvaluateSelect(const Instruction* x,
                                                        const Positions& positions, int depth) {
  const bool is_one_for_all = x->operand(0)->shape()->rank() == 0;
  const Elements chosen = Evaluate(
      x->operand(0), is_one_for_all ? Positions{positions.count, 0} : positions, depth + 1);
  Elements elements = Unknown(positions.count);
  for (const bool is_true : {true, false}) {
    const auto takes = [&](size_t i) {
      return chosen.known[i] != 0 && (chosen.values[i] != 0) == is_true;
    };
    size_t first = 0;
    while (first < positions.count && !takes(first)) ++first;
    if (first == positions.count) continue;
    const Elements branch = Evaluate(x->operand(is_true ? 1 : 2), positions, depth + 1);
    for (size_t i = first; i < positions.count; ++i) {
      if (!takes(i)) continue;
      elements.values[i] = branch.values[i];
      elements.known[i] = branch.known[i];
    }
  }
  return elements;
}

PositionValues::Elements PositionValues::EvaluateElementwise(const Instruction* x,
                                                             const Positions& positions,
                                                             int depth) {
  if (x->opcode() == Opcode::kSelect) return EvaluateSelect(x, positions, depth);
  if (x->operand_count() != 1 && x->operand_count() != 2) return Unknown(positions.count);
  Elements a = Evaluate(x->operand(0), positions, depth + 1);
  const auto put = [&](size_t i, std::optional<double> value) {
    a.known[i] = value.has_value();
    a.values[i] = value.value_or(0);
  };
  if (x->operand_count() == 1) {
    for (size_t i = 0; i < positions.count; ++i) {
      if (a.known[i] != 0) put(i, UnaryValue(x, a.values[i]));
    }
    return a;
  }
  const Elements b = Evaluate(x->operand(1), positions, depth + 1);
  const bool is_pred = x->shape()->dtype() == DType::kPred;
  for (size_t i = 0; i < positions.count; ++i) {
    if (a.known[i] != 0 && b.known[i] != 0) {
      put(i, BinaryValue(x, a.values[i], b.values[i]));
    } else if (is_pred && (a.known[i] != 0 || b.known[i] != 0)) {
      put(i, Decided(x, a.known[i] != 0 ? a.values[i] : b.values[i]));
    } else {
      put(i, std::nullopt);
    }
  }
  return a;
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
