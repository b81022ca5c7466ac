// Recognises counted loops. See trip_count.h.

#include "core/analysis/trip_count.h"

#include <re2/re2.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/analysis/integer_value.h"
#include "ir/comparison.h"
#include "ir/computation.h"
#include "ir/custom_call.h"

namespace gshard {
namespace {

constexpr int kDeepestCounter = 64;
constexpr size_t kMostConditions = 64;

// Follows what does not change a scalar's value.
const Instruction* SkipCopies(const Instruction* x) {
  for (int depth = 0; depth < kDeepestCounter; ++depth) {
    switch (x->opcode()) {
      case Opcode::kCopy:
      case Opcode::kReshape:
      case Opcode::kBitcast:
      case Opcode::kConvert:
      case Opcode::kOptBarrier:
        x = x->operand(0);
        continue;
      // In a region that is manual in some axes a marker is on each value.
      case Opcode::kCustomCall:
        if (!IsIdentityCall(*x) || x->operand_count() != 1) return x;
        x = x->operand(0);
        continue;
      case Opcode::kGetTupleElement: {
        const Instruction* tuple = x->operand(0);
        while (tuple->opcode() == Opcode::kOptBarrier || tuple->opcode() == Opcode::kCopy) {
          tuple = tuple->operand(0);
        }
        if (tuple->opcode() != Opcode::kTuple) return x;
        x = tuple->operand(x->attributes<GetTupleElementAttributes>().index);
        continue;
      }
      default:  // the value itself
        return x;
    }
  }
  return x;
}

// Index i if x is get-tuple-element(parameter(0), i) of its computation.
std::optional<int64_t> CarriedIndex(const Instruction* x) {
  x = SkipCopies(x);
  if (x->opcode() != Opcode::kGetTupleElement) return std::nullopt;
  const Instruction* tuple = x->operand(0);
  while (tuple->opcode() == Opcode::kOptBarrier || tuple->opcode() == Opcode::kCopy)
    tuple = tuple->operand(0);
  if (tuple->opcode() != Opcode::kParameter) return std::nullopt;
  return x->attributes<GetTupleElementAttributes>().index;
}

const Instruction* TupleElement(const Instruction* tuple, int64_t index) {
  while (tuple->opcode() == Opcode::kOptBarrier || tuple->opcode() == Opcode::kCopy)
    tuple = tuple->operand(0);
  if (tuple->opcode() != Opcode::kTuple || index >= tuple->operand_count()) return nullptr;
  return tuple->operand(index);
}

struct Loop {
  const Instruction* init;
  const Instruction* body_root;

  // Constant value of a side of the comparison: itself, or carried unchanged from a constant init.
  std::optional<int64_t> Invariant(const Instruction* x) const {
    if (auto value = ConstantScalar(x)) return value;
    auto index = CarriedIndex(x);
    if (!index) return std::nullopt;
    const Instruction* next = TupleElement(body_root, *index);
    const Instruction* first = TupleElement(init, *index);
    if (next == nullptr || first == nullptr || CarriedIndex(next) != index) return std::nullopt;
    return ConstantScalar(first);
  }

  // Constant added to carried element `index` by each trip.
  std::optional<int64_t> Step(int64_t index) const {
    const Instruction* next = TupleElement(body_root, index);
    if (next == nullptr) return std::nullopt;
    next = SkipCopies(next);
    if (next->opcode() == Opcode::kSubtract && CarriedIndex(next->operand(0)) == index) {
      auto step = Invariant(next->operand(1));
      return step ? std::optional(-*step) : std::nullopt;
    }
    if (next->opcode() != Opcode::kAdd) return std::nullopt;
    if (CarriedIndex(next->operand(0)) == index) return Invariant(next->operand(1));
    if (CarriedIndex(next->operand(1)) == index) return Invariant(next->operand(0));
    return std::nullopt;
  }
};

// Trips of a loop whose counter goes from `start` to `bound`; nothing where it does not end there.
std::optional<int64_t> TripsTo(int64_t bound, ComparisonDirection direction, int64_t start,
                               int64_t step) {
  bool upwards = direction == ComparisonDirection::kLt || direction == ComparisonDirection::kLe;
  int64_t distance = 0, stride = step > 0 ? step : -step;
  if (step > 0 ? __builtin_sub_overflow(bound, start, &distance)
               : __builtin_sub_overflow(start, bound, &distance)) {
    return std::nullopt;
  }
  if (direction == ComparisonDirection::kNe) {
    if (distance < 0 || distance % stride != 0) return std::nullopt;
    return distance / stride;
  }
  if (direction == ComparisonDirection::kEq || upwards != (step > 0)) return std::nullopt;
  bool inclusive = direction == ComparisonDirection::kLe || direction == ComparisonDirection::kGe;
  if (distance < 0) return 0;
  return inclusive ? distance / stride + 1 : distance / stride + (distance % stride != 0 ? 1 : 0);
}

// What XLA's own analysis left in the loop's backend_config: {"known_trip_count":{"n":"3"}}.
std::optional<int64_t> RecordedTripCount(const Instruction& while_loop) {
  static const RE2 kRecord(R"re("known_trip_count":\{"n":"(\d+)"\})re");
  std::string_view config = while_loop.backend_config();
  int64_t count = 0;
  if (RE2::PartialMatch({config.data(), config.size()}, kRecord, &count)) return count;
  return std::nullopt;
}

// The truth value that `condition` is: JAX writes `p != false` for one that it converts to bool.
const Instruction* SkipTruth(const Instruction* condition) {
  condition = SkipCopies(condition);
  while (condition->opcode() == Opcode::kCompare &&
         condition->operand(0)->shape()->dtype() == DType::kPred &&
         condition->attributes<CompareAttributes>().direction == ComparisonDirection::kNe &&
         ConstantScalar(condition->operand(1)) == 0) {
    condition = SkipCopies(condition->operand(0));
  }
  return condition;
}

// The conditions of which all must hold for `root` to. Where they are many, `root` is one.
std::vector<const Instruction*> Conjuncts(const Instruction* root) {
  std::vector<const Instruction*> open = {SkipTruth(root)}, found;
  while (!open.empty()) {
    if (found.size() + open.size() > kMostConditions) return {SkipTruth(root)};
    const Instruction* condition = open.back();
    open.pop_back();
    if (condition->opcode() == Opcode::kAnd) {
      for (const Instruction* part : condition->operands()) open.push_back(SkipTruth(part));
    } else {
      found.push_back(condition);
    }
  }
  return found;
}

// Of a loop that runs while `condition` holds, which SkipTruth has returned.
std::optional<LoopCounter> CounterIn(const Instruction* condition, const Instruction& while_loop) {
  if (condition->opcode() != Opcode::kCompare) return std::nullopt;
  Loop loop{while_loop.operand(0), while_loop.called(1)->root()};
  for (int64_t side : {0, 1}) {
    auto index = CarriedIndex(condition->operand(side));
    auto bound = loop.Invariant(condition->operand(1 - side));
    if (!index || !bound) continue;
    const Instruction* first = TupleElement(loop.init, *index);
    auto start = first == nullptr ? std::nullopt : ConstantScalar(first);
    auto step = loop.Step(*index);
    if (!start || !step || *step == 0) continue;
    ComparisonDirection direction = condition->attributes<CompareAttributes>().direction;
    if (side == 1) direction = Mirrored(direction);
    if (auto trips = TripsTo(*bound, direction, *start, *step)) {
      return LoopCounter{*index, *start, *step, *trips};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LoopCounter> CounterOf(const Instruction& while_loop) {
  std::optional<LoopCounter> first;  // to end the loop
  for (const Instruction* condition : Conjuncts(while_loop.called(0)->root())) {
    const std::optional<LoopCounter> counter = CounterIn(condition, while_loop);
    if (!counter) return std::nullopt;
    if (!first || counter->trips < first->trips) first = counter;
  }
  return first;
}

std::optional<int64_t> TripCount(const Instruction& while_loop) {
  if (std::optional<LoopCounter> counter = CounterOf(while_loop)) return counter->trips;
  return RecordedTripCount(while_loop);
}

std::optional<int64_t> MostTrips(const Instruction& while_loop) {
  std::optional<int64_t> most;
  for (const Instruction* condition : Conjuncts(while_loop.called(0)->root())) {
    if (const std::optional<LoopCounter> counter = CounterIn(condition, while_loop))
      most = std::min(most.value_or(counter->trips), counter->trips);
  }
  return most;
}

}  // namespace gshard
