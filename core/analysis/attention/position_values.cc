#include "core/analysis/attention/position_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_set>
#include <utility>

#include "ir/literal.h"

namespace gshard {
namespace {

bool IsInteger(const Shape* shape) {
  return !IsFloat(shape->dtype()) && !IsComplex(shape->dtype());
}

using Elements = PositionValues::Elements;

Elements Unknown() { return {{0}, {0}}; }

bool IsUnknown(const Elements& a) { return a.IsUniform() && a.known[0] == 0; }

// With one element a position, if those of `other` differ.
Elements SpreadLike(Elements a, const Elements& other) {
  if (!a.IsUniform() || other.IsUniform()) return a;
  const size_t count = other.values.size();
  return {std::vector<double>(count, a.values[0]), std::vector<uint8_t>(count, a.known[0])};
}

// `f` of the known elements; those that are not stay 0.
template <typename F>
Elements Mapped(Elements a, F f) {
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.known[i] != 0) a.values[i] = static_cast<double>(f(a.values[i]));
  }
  return a;
}

// `f` where both elements are known.
template <typename F>
Elements Combined(Elements a, const Elements& b, F f) {
  if (IsUnknown(a) || IsUnknown(b)) return Unknown();
  a = SpreadLike(std::move(a), b);
  const size_t step = b.IsUniform() ? 0 : 1;
  for (size_t i = 0; i < a.values.size(); ++i) {
    a.known[i] = a.known[i] & b.known[i * step];
    a.values[i] = a.known[i] != 0 ? static_cast<double>(f(a.values[i], b.values[i * step])) : 0;
  }
  return a;
}

// Not known where it would divide by zero.
Elements WithoutZeros(Elements b) {
  for (size_t i = 0; i < b.values.size(); ++i) b.known[i] &= b.values[i] != 0;
  return b;
}

// An `and` (`decisive` is false) or an `or` (true) of preds: one operand may decide alone.
Elements Decided(Elements a, const Elements& b, bool decisive) {
  a = SpreadLike(std::move(a), b);
  for (size_t i = 0; i < a.values.size(); ++i) {
    const bool by_a = a.known[i] != 0 && (a.values[i] != 0) == decisive;
    const bool by_b = b.IsKnownAt(i) && (b.ValueAt(i) != 0) == decisive;
    a.known[i] = (a.known[i] != 0 && b.IsKnownAt(i)) || by_a || by_b;
    a.values[i] = a.known[i] != 0 && (by_a || by_b) == decisive;
  }
  return a;
}

Elements Compared(ComparisonDirection direction, Elements a, const Elements& b) {
  switch (direction) {
    case ComparisonDirection::kEq:
      return Combined(std::move(a), b, std::equal_to<>());
    case ComparisonDirection::kNe:
      return Combined(std::move(a), b, std::not_equal_to<>());
    case ComparisonDirection::kLt:
      return Combined(std::move(a), b, std::less<>());
    case ComparisonDirection::kLe:
      return Combined(std::move(a), b, std::less_equal<>());
    case ComparisonDirection::kGt:
      return Combined(std::move(a), b, std::greater<>());
    case ComparisonDirection::kGe:
      return Combined(std::move(a), b, std::greater_equal<>());
  }
  return Unknown();
}

Elements UnaryValues(const Instruction* x, Elements a) {
  const bool is_pred = x->shape()->dtype() == DType::kPred;
  switch (x->opcode()) {
    case Opcode::kAbs:
      return Mapped(std::move(a), [](double v) { return std::fabs(v); });
    case Opcode::kNegate:
      return Mapped(std::move(a), std::negate<>());
    case Opcode::kSign:
      return Mapped(std::move(a), [](double v) { return (v > 0 ? 1 : 0) - (v < 0 ? 1 : 0); });
    case Opcode::kFloor:
      return Mapped(std::move(a), [](double v) { return std::floor(v); });
    case Opcode::kCeil:
      return Mapped(std::move(a), [](double v) { return std::ceil(v); });
    case Opcode::kNot:
      if (is_pred) return Mapped(std::move(a), std::logical_not<>());
      return Unknown();
    case Opcode::kConvert:
    case Opcode::kReducePrecision:
    case Opcode::kCopy:
      if (is_pred) return Mapped(std::move(a), [](double v) { return v != 0; });
      if (!IsInteger(x->shape())) return a;
      return Mapped(std::move(a), [](double v) { return std::trunc(v); });
    default:  // no mask is made by others
      return Unknown();
  }
}

Elements BinaryValues(const Instruction* x, Elements a, const Elements& b) {
  const bool is_pred = x->shape()->dtype() == DType::kPred;
  switch (x->opcode()) {
    case Opcode::kAdd:
      return Combined(std::move(a), b, std::plus<>());
    case Opcode::kSubtract:
      return Combined(std::move(a), b, std::minus<>());
    case Opcode::kMultiply:
      return Combined(std::move(a), b,
                      [](double v, double w) { return v == 0 || w == 0 ? 0 : v * w; });
    case Opcode::kDivide:
      a = Combined(std::move(a), WithoutZeros(b), std::divides<>());
      if (!IsInteger(x->shape())) return a;
      return Mapped(std::move(a), [](double v) { return std::trunc(v); });
    case Opcode::kRemainder:
      return Combined(std::move(a), WithoutZeros(b),
                      [](double v, double w) { return std::fmod(v, w); });
    case Opcode::kMaximum:
      return Combined(std::move(a), b, [](double v, double w) { return std::max(v, w); });
    case Opcode::kMinimum:
      return Combined(std::move(a), b, [](double v, double w) { return std::min(v, w); });
    case Opcode::kCompare:
      return Compared(x->attributes<CompareAttributes>().direction, std::move(a), b);
    case Opcode::kAnd:
    case Opcode::kOr:
      if (is_pred) return Decided(std::move(a), b, x->opcode() == Opcode::kOr);
      return Unknown();
    case Opcode::kXor:
      if (is_pred) return Combined(std::move(a), b, std::not_equal_to<>());
      return Unknown();
    default:  // no mask is made by others
      return Unknown();
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
  return Evaluate(x, x->shape()->rank() == 0 ? Positions{1, 0} : positions, 0);
}

PositionValues::Elements PositionValues::Evaluate(const Instruction* x, const Positions& positions,
                                                  int depth) {
  x = carried_.Origin(x);
  if (--operations_left_ < 0 || depth > kDeepest || !x->shape()->IsArray() ||
      x->shape()->rank() > kMaxRank) {
    return Unknown();
  }
  if (x->opcode() == Opcode::kIota) {
    const int64_t* along =
        positions.dims[static_cast<size_t>(x->attributes<IotaAttributes>().dimension)];
    return {std::vector<double>(along, along + positions.count),
            std::vector<uint8_t>(positions.count, 1)};
  }
  if (x->opcode() == Opcode::kPartitionId) {
    asked_for_device_ = true;
    return {{static_cast<double>(device_)}, {1}};
  }
  if (x->opcode() == Opcode::kConstant) {
    const Literal& literal = *x->attributes<ConstantAttributes>().literal;
    if (literal.elided || IsComplex(x->shape()->dtype())) return Unknown();
    if (x->shape()->rank() == 0) return {{ElementAsDouble(literal, 0)}, {1}};
    const std::vector<int64_t> at = RowMajorOf(x->shape(), positions);
    Elements elements{std::vector<double>(at.size()), std::vector<uint8_t>(at.size(), 1)};
    for (size_t i = 0; i < at.size(); ++i) elements.values[i] = ElementAsDouble(literal, at[i]);
    return elements;
  }
  if (IsMove(x->opcode())) return EvaluateMoved(x, positions, depth);
  if (IsElementwise(x->opcode())) return EvaluateElementwise(x, positions, depth);
  return Unknown();
}

PositionValues::Elements PositionValues::EvaluateMoved(const Instruction* x,
                                                       const Positions& positions, int depth) {
  const Instruction* operand = x->operand(0);
  const auto rank = static_cast<size_t>(operand->shape()->rank());
  Positions from{rank == 0 ? 1 : positions.count, rank};
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
        return Unknown();
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
      return EvaluateDynamicSlice(x, positions, depth);
    default:  // IsMove has no others
      return Unknown();
  }
}

// What a loop saved, or the part of an array that begins where constants and the device say.
PositionValues::Elements PositionValues::EvaluateDynamicSlice(const Instruction* x,
                                                              const Positions& positions,
                                                              int depth) {
  if (const Instruction* stored = carried_.StoredSlice(x)) {
    return Evaluate(stored, positions, depth + 1);
  }
  const Shape* shape = x->operand(0)->shape();
  Positions from{positions.count, positions.rank};
  for (size_t dim = 0; dim < from.rank; ++dim) {
    const auto d = static_cast<int64_t>(dim);
    const Elements start = Evaluate(x->operand(d + 1), Positions{1, 0}, depth + 1);
    if (IsUnknown(start)) return Unknown();
    const int64_t last = shape->dim(d) - x->shape()->dim(d);
    const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(start.values[0]), 0, last);
    std::vector<int64_t>& column = Column(positions.count);
    for (size_t i = 0; i < column.size(); ++i) column[i] = first + positions.dims[dim][i];
    from.dims[dim] = column.data();
  }
  return Evaluate(x->operand(0), from, depth + 1);
}

// Only the operands that are chosen somewhere are evaluated.
PositionValues::Elements PositionValues::EvaluateSelect(const Instruction* x,
                                                        const Positions& positions, int depth) {
  const bool is_one_for_all = x->operand(0)->shape()->rank() == 0;
  const Elements chosen =
      Evaluate(x->operand(0), is_one_for_all ? Positions{1, 0} : positions, depth + 1);
  if (chosen.IsUniform()) {
    if (IsUnknown(chosen)) return Unknown();
    return Evaluate(x->operand(chosen.values[0] != 0 ? 1 : 2), positions, depth + 1);
  }
  Elements elements{std::vector<double>(positions.count), std::vector<uint8_t>(positions.count)};
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
      elements.values[i] = branch.ValueAt(i);
      elements.known[i] = branch.IsKnownAt(i) ? 1 : 0;
    }
  }
  return elements;
}

PositionValues::Elements PositionValues::EvaluateElementwise(const Instruction* x,
                                                             const Positions& positions,
                                                             int depth) {
  if (x->opcode() == Opcode::kSelect) return EvaluateSelect(x, positions, depth);
  if (x->operand_count() != 1 && x->operand_count() != 2) return Unknown();
  Elements a = Evaluate(x->operand(0), positions, depth + 1);
  if (x->operand_count() == 1) return UnaryValues(x, std::move(a));
  return BinaryValues(x, std::move(a), Evaluate(x->operand(1), positions, depth + 1));
}

bool PositionValues::AppendLiteral(const Literal& literal, std::vector<uint64_t>& key) {
  const std::span<const std::byte> data = literal.data;
  if (data.size() > kLongestKey * sizeof(uint64_t)) return false;
  key.push_back(literal.elided ? 1 : 0);
  const size_t begin = key.size();
  key.resize(begin + (data.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  if (!data.empty()) std::memcpy(&key[begin], data.data(), data.size());
  return true;
}

bool PositionValues::AppendKey(const Instruction* x, int depth, Key& key) const {
  x = carried_.Origin(x);
  std::vector<uint64_t>& words = key.words;
  if (depth > kDeepest || words.size() > kLongestKey) return false;
  const auto [number, is_new] = key.numbers.try_emplace(x, key.numbers.size());
  if (!is_new) {
    words.push_back(kOpcodeCount);  // told before
    words.push_back(number->second);
    return true;
  }
  const auto append = [&](const Dims& values) {
    words.insert(words.end(), values.begin(), values.end());
  };
  const Opcode opcode = x->opcode();
  words.push_back(static_cast<uint64_t>(opcode));
  if (x->shape()->IsArray()) {
    words.push_back(static_cast<uint64_t>(x->shape()->dtype()));
    words.push_back(static_cast<uint64_t>(x->shape()->rank()));
    append(x->shape()->dims());
  }
  int64_t followed = IsElementwise(opcode) && x->operand_count() <= 3 ? x->operand_count() : 0;
  switch (opcode) {
    case Opcode::kIota:
      words.push_back(static_cast<uint64_t>(x->attributes<IotaAttributes>().dimension));
      break;
    case Opcode::kConstant:
      if (!AppendLiteral(*x->attributes<ConstantAttributes>().literal, words)) return false;
      break;
    case Opcode::kCompare:
      words.push_back(static_cast<uint64_t>(x->attributes<CompareAttributes>().direction));
      break;
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
      append(x->attributes<DimensionsAttributes>().dimensions);
      followed = 1;
      break;
    case Opcode::kReshape:
    case Opcode::kBitcast:
      followed = 1;
      break;
    case Opcode::kSlice:
      append(x->attributes<SliceAttributes>().starts);
      append(x->attributes<SliceAttributes>().strides);
      followed = 1;
      break;
    case Opcode::kDynamicSlice:
      if (const Instruction* stored = carried_.StoredSlice(x)) {
        return AppendKey(stored, depth + 1, key);
      }
      followed = x->operand_count();
      break;
    default:  // its shape and operands tell all
      break;
  }
  for (int64_t i = 0; i < followed; ++i) {
    if (!AppendKey(x->operand(i), depth + 1, key)) return false;
  }
  return true;
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
    if (opcode == Opcode::kGetTupleElement &&
        value->operand(0)->opcode() == Opcode::kRngBitGenerator) {
      // A kernel draws its numbers from the state.
      sources.push_back(value->operand(0)->operand(0));
      continue;
    }
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
