// Interval arithmetic over the operands. See integer_bounds.h.
#include "core/analysis/integer_bounds.h"

#include <algorithm>

#include "ir/literal.h"

namespace gshard {
namespace {

constexpr int kMaxDepth = 64;
constexpr int64_t kMaxLiteral = 1 << 16;  // elements that are looked at

std::optional<IntegerBounds> OfLiteral(const Instruction* x) {
  const Literal* literal = x->attributes<ConstantAttributes>().literal;
  const int64_t count = x->shape()->element_count();
  if (literal == nullptr || HasElided(*literal) || count < 1 || count > kMaxLiteral) return {};
  IntegerBounds bounds{ElementAsInt64(*literal, 0), ElementAsInt64(*literal, 0)};
  for (int64_t i = 1; i < count; ++i) {
    const int64_t value = ElementAsInt64(*literal, i);
    bounds.low = std::min(bounds.low, value);
    bounds.high = std::max(bounds.high, value);
  }
  return bounds;
}

bool IsSmall(const IntegerBounds& bounds) {
  return bounds.low >= -kMaxIndex && bounds.high <= kMaxIndex;
}

std::optional<IntegerBounds> Union(std::optional<IntegerBounds> a, std::optional<IntegerBounds> b) {
  if (!a || !b) return {};
  return IntegerBounds{std::min(a->low, b->low), std::max(a->high, b->high), a->counts || b->counts,
                       a->by_device || b->by_device};
}

}  // namespace

IntegerBoundsFinder::IntegerBoundsFinder(const Module& module, int64_t device_count)
    : device_count_(std::max<int64_t>(device_count, 1)) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) {
        const auto [at, is_new] = callers_.emplace(called, x);
        if (!is_new) at->second = nullptr;
      }
    }
  }
}

std::optional<IntegerBounds> IntegerBoundsFinder::Find(const Instruction* x, int depth) {
  if (depth > kMaxDepth || !x->shape()->IsArray() || !IsInteger(x->shape()->dtype())) return {};
  const auto found = known_.find(x);
  if (found != known_.end()) return found->second;
  std::optional<IntegerBounds> bounds = Compute(x, depth);
  if (bounds && !IsSmall(*bounds)) bounds.reset();
  known_[x] = bounds;
  return bounds;
}

std::optional<IntegerBounds> IntegerBoundsFinder::OfParameter(const Instruction* x, int depth) {
  const auto caller = callers_.find(x->parent());
  if (caller == callers_.end() || caller->second == nullptr) return {};
  const int64_t number = x->attributes<ParameterAttributes>().number;
  switch (caller->second->opcode()) {
    case Opcode::kCall:
    case Opcode::kFusion:
    case Opcode::kAsyncStart:
      return number < caller->second->operand_count()
                 ? Find(caller->second->operand(number), depth + 1)
                 : std::nullopt;
    default:  // its parameters are not the operands one by one
      return {};
  }
}

std::optional<IntegerBounds> IntegerBoundsFinder::OfArithmetic(const Instruction* x, int depth) {
  const auto a = Find(x->operand(0), depth + 1);
  const auto b = Find(x->operand(1), depth + 1);
  if (!a || !b) return {};
  IntegerBounds bounds = *Union(a, b);
  switch (x->opcode()) {
    case Opcode::kAdd:
      bounds.low = a->low + b->low;
      bounds.high = a->high + b->high;
      return bounds;
    case Opcode::kSubtract:
      bounds.low = a->low - b->high;
      bounds.high = a->high - b->low;
      return bounds;
    case Opcode::kMultiply: {
      if (a->low < 0 || b->low < 0 || (b->high > 0 && a->high > kMaxIndex / b->high)) return {};
      bounds.low = a->low * b->low;
      bounds.high = a->high * b->high;
      return bounds;
    }
    case Opcode::kDivide:
      if (!b->IsConstant() || b->low <= 0) return {};
      bounds.low = a->low / b->low;
      bounds.high = a->high / b->low;
      return bounds;
    case Opcode::kRemainder:
      if (!b->IsConstant() || b->low <= 0 || a->low < 0) return {};
      bounds.low = a->high < b->low ? a->low : 0;
      bounds.high = std::min(a->high, b->low - 1);
      return bounds;
    case Opcode::kMinimum:
      bounds.low = std::min(a->low, b->low);
      bounds.high = std::min(a->high, b->high);
      return bounds;
    case Opcode::kMaximum:
      bounds.low = std::max(a->low, b->low);
      bounds.high = std::max(a->high, b->high);
      return bounds;
    default:  // unbounded
      return {};
  }
}

std::optional<IntegerBounds> IntegerBoundsFinder::Compute(const Instruction* x, int depth) {
  switch (x->opcode()) {
    case Opcode::kConstant:
      return OfLiteral(x);
    case Opcode::kIota: {
      const int64_t size = x->shape()->dim(x->attributes<IotaAttributes>().dimension);
      return IntegerBounds{0, std::max<int64_t>(size - 1, 0), /*counts=*/true};
    }
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
      return IntegerBounds{0, device_count_ - 1, false, /*by_device=*/true};
    case Opcode::kParameter:
      return OfParameter(x, depth);
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kReverse:
    case Opcode::kCopy:
    case Opcode::kConvert:
    case Opcode::kOptBarrier:
      return Find(x->operand(0), depth + 1);
    case Opcode::kDynamicSlice:
    case Opcode::kGather: {
      // The starts only pick.
      auto bounds = Find(x->operand(0), depth + 1);
      const auto start = Find(x->operand(1), depth + 1);
      if (bounds && start) bounds->by_device |= start->by_device;
      return bounds;
    }
    case Opcode::kConcatenate: {
      auto bounds = Find(x->operand(0), depth + 1);
      for (const Instruction* operand : x->operands().subspan(1)) {
        bounds = Union(bounds, Find(operand, depth + 1));
      }
      return bounds;
    }
    case Opcode::kSelect:
      return Union(Find(x->operand(1), depth + 1), Find(x->operand(2), depth + 1));
    case Opcode::kClamp: {
      const auto low = Find(x->operand(0), depth + 1);
      const auto high = Find(x->operand(2), depth + 1);
      auto bounds = Union(low, high);
      const auto of = Find(x->operand(1), depth + 1);
      if (bounds && of) {
        bounds->counts = of->counts;
        bounds->by_device = of->by_device;
      }
      return bounds;
    }
    case Opcode::kGetTupleElement: {
      const Instruction* tuple = x->operand(0);
      const int64_t index = x->attributes<GetTupleElementAttributes>().index;
      return tuple->opcode() == Opcode::kTuple ? Find(tuple->operand(index), depth + 1)
                                               : std::nullopt;
    }
    default:  // arithmetic, or unbounded
      return x->operand_count() == 2 ? OfArithmetic(x, depth) : std::nullopt;
  }
}

}  // namespace gshard
