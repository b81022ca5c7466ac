// Values at addresses in the order of execution. See heap_placement.h.

#include "core/cost/memory/heap_placement.h"

#include <algorithm>

#include "core/cost/memory/value_lives.h"

namespace gshard {
namespace {

// Addresses are multiples of it, by all buffer assignments looked at. Where values that are smaller
// than that lie is left out: there are few of them where memory counts.
constexpr int64_t kAlignment = 16384;

struct PlacedValue {
  std::vector<StepSpan> life;  // in order
  int64_t bytes = 0;
  const Instruction* owner = nullptr;
  uint32_t leaf = 0;
  int64_t address = 0;

  uint32_t last() const { return life.back().last; }
};

bool AreAliveTogether(const PlacedValue& a, const PlacedValue& b) {
  return std::ranges::any_of(a.life, [&](StepSpan x) {
    return std::ranges::any_of(b.life,
                               [&](StepSpan y) { return x.first <= y.last && y.first <= x.last; });
  });
}

// Values of the ranges of a program that are temporaries, by when they are made.
class Temporaries {
 public:
  Temporaries(const ValueLives& lives, const HeapPlacementInput& input)
      : lives_(lives), values_(lives.ranges()), is_elsewhere_(lives.ranges(), false) {
    for (const ComputationSteps& steps : lives.computations()) {
      if (!steps.memory->is_idle) AddRanges(steps);
      if (steps.memory->context.returns_to_runtime) LeaveOutArguments(steps);
    }
    for (const auto& [step, callee, result_bytes] : lives.shared_calls()) {
      const auto known = input.shared.find(callee);
      if (known == input.shared.end()) continue;
      const auto& [bytes, owner, leaf, apart_bytes] = known->second;
      values_.push_back({{{step, step}}, bytes - result_bytes, owner, leaf});
    }
  }

  // Of what has memory of its own.
  int64_t ApartBytes() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < is_elsewhere_.size(); ++i)
      bytes += is_elsewhere_[i] ? values_[i].bytes : 0;
    return bytes;
  }

  std::vector<PlacedValue> InOrder() && {
    std::vector<PlacedValue> placed;
    for (size_t i = 0; i < values_.size(); ++i) {
      PlacedValue& value = values_[i];
      const bool is_elsewhere = i < is_elsewhere_.size() && is_elsewhere_[i];
      if (is_elsewhere || value.bytes < kAlignment || value.life.empty()) continue;
      value.bytes = (value.bytes + kAlignment - 1) / kAlignment * kAlignment;
      std::ranges::sort(value.life, {}, &StepSpan::first);
      placed.push_back(std::move(value));
    }
    std::ranges::stable_sort(placed, {}, [](const PlacedValue& v) { return v.life[0].first; });
    return placed;
  }

 private:
  void AddRanges(const ComputationSteps& steps) {
    for (uint32_t i = 0; i < steps.liveness->ranges.size(); ++i) {
      const LiveRange& range = steps.liveness->ranges[i];
      const Buffer& buffer = steps.graph().buffers[range.buffer];
      const uint32_t number = steps.first_range + i;
      PlacedValue& value = values_[lives_.ValueOf(number)];
      const std::vector<StepSpan>& life = lives_.LifeOf(number);
      value.life.insert(value.life.end(), life.begin(), life.end());
      if (value.owner == nullptr) {
        value.owner = buffer.owner;
        value.leaf = buffer.leaf;
      }
      value.bytes = std::max(value.bytes, range.bytes);
    }
  }

  // Arguments and results have memory of their own, and what is made in place of an argument has
  // its.
  void LeaveOutArguments(const ComputationSteps& entry) {
    for (uint32_t buffer : entry.graph().parameter_leaves) LeaveOut(entry.RangeOf(buffer));
    for (size_t i = 0; i < entry.graph().root_leaves.size(); ++i) {
      if (entry.memory->context.root_place[i] < 0)
        LeaveOut(entry.RangeOf(entry.graph().root_leaves[i]));
    }
    for (uint32_t i = 0; i < entry.liveness->ranges.size(); ++i) {
      if (entry.liveness->ranges[i].is_copy) LeaveOut(entry.first_range + i);
    }
  }
  void LeaveOut(uint32_t range) { is_elsewhere_[lives_.ValueOf(range)] = true; }

  const ValueLives& lives_;
  std::vector<PlacedValue> values_;  // by range; of a value at the one that stands for it
  std::vector<bool> is_elsewhere_;
};

// The start of the smallest piece that is free for all of a value's life. `placed` is by address.
int64_t FreeAddress(const std::vector<const PlacedValue*>& placed, const PlacedValue& value) {
  int64_t free_from = 0, best = -1, best_bytes = 0;
  for (const PlacedValue* other : placed) {
    const int64_t end = other->address + other->bytes;
    if (end <= free_from || !AreAliveTogether(*other, value)) continue;
    const int64_t bytes = other->address - free_from;
    if (bytes >= value.bytes && (best < 0 || bytes < best_bytes)) {
      best = free_from;
      best_bytes = bytes;
    }
    free_from = end;
  }
  return best >= 0 ? best : free_from;
}

}  // namespace

HeapPlacement PlaceInOrder(const Computation& root, const HeapPlacementInput& input) {
  const ValueLives lives(root, input.memories, input.calls, ValueLives::Memory::kSlow);
  Temporaries temporaries(lives, input);
  HeapPlacement result;
  result.apart_bytes = temporaries.ApartBytes();
  std::vector<PlacedValue> values = std::move(temporaries).InOrder();
  std::vector<const PlacedValue*> placed;  // by address: those that are not yet dead for good
  for (PlacedValue& value : values) {
    const uint32_t now = value.life[0].first;
    std::erase_if(placed, [&](const PlacedValue* other) { return other->last() < now; });
    value.address = FreeAddress(placed, value);
    placed.insert(std::ranges::upper_bound(placed, value.address, {}, &PlacedValue::address),
                  &value);
    if (value.address + value.bytes <= result.bytes) continue;
    result.bytes = value.address + value.bytes;
    result.highest = value.owner;
    result.leaf = value.leaf;
  }
  return result;
}

}  // namespace gshard
