// Interning and joining of device partitions; joins and maps are memoised by pointer pair.
#include "core/analysis/device_classes.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/diagnostic.h"

namespace gshard {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  return x;
}

using Pair = std::pair<const DeviceClasses*, const DeviceClasses*>;
struct PairHash {
  size_t operator()(const Pair& pair) const {
    return Mix(reinterpret_cast<uintptr_t>(pair.first)) * 31 +
           Mix(reinterpret_cast<uintptr_t>(pair.second));
  }
};

constexpr uint32_t kNoNumber = UINT32_MAX;

// Renumbers labels by first appearance; returns the first device of each class. `number_of` gives
// the place of a label's number, kNoNumber so far.
template <typename NumberOf>
std::vector<uint32_t> Renumber(std::span<const uint64_t> labels, std::vector<uint32_t>& class_of,
                               NumberOf number_of) {
  std::vector<uint32_t> first;
  class_of.resize(labels.size());
  for (size_t d = 0; d < labels.size(); ++d) {
    uint32_t& number = number_of(labels[d]);
    if (number == kNoNumber) {
      number = static_cast<uint32_t>(first.size());
      first.push_back(static_cast<uint32_t>(d));
    }
    class_of[d] = number;
  }
  return first;
}

std::vector<uint32_t> Renumber(std::span<const uint64_t> labels, std::vector<uint32_t>& class_of) {
  uint64_t most = 0;
  for (uint64_t label : labels) most = std::max(most, label);
  // Labels that are numbers of classes already: a table instead of hashing.
  if (most < 4 * labels.size() + 64) {
    std::vector<uint32_t> numbers(most + 1, kNoNumber);
    return Renumber(labels, class_of, [&](uint64_t label) -> uint32_t& { return numbers[label]; });
  }
  struct Slot {
    uint64_t label = 0;
    uint32_t number = kNoNumber;
  };
  const size_t capacity = std::bit_ceil(labels.size() * 2 + 2);
  std::vector<Slot> slots(capacity);
  return Renumber(labels, class_of, [&](uint64_t label) -> uint32_t& {
    size_t i = Mix(label) & (capacity - 1);
    while (slots[i].number != kNoNumber && slots[i].label != label) i = (i + 1) & (capacity - 1);
    slots[i].label = label;
    return slots[i].number;
  });
}

// Two numbers a step: the steps wait for each other.
uint64_t HashOf(std::span<const uint32_t> numbers) {
  uint64_t hash = numbers.size();
  size_t i = 0;
  for (; i + 2 <= numbers.size(); i += 2) {
    hash = Mix(hash * 31 + (uint64_t{numbers[i + 1]} << 32 | numbers[i]) + 1);
  }
  return i < numbers.size() ? Mix(hash * 31 + numbers[i] + 1) : hash;
}

// What classes of `fine` with these numbers become.
struct Merged {
  const DeviceClasses* fine = nullptr;
  std::vector<uint32_t> numbers;
  const DeviceClasses* classes = nullptr;
};

}  // namespace

struct DeviceClassTable::Tables {
  std::vector<std::unique_ptr<DeviceClasses>> all;
  tsl::robin_map<uint64_t, std::vector<const DeviceClasses*>> by_hash;
  tsl::robin_map<Pair, const DeviceClasses*, PairHash> joins;
  tsl::robin_map<Pair, std::unique_ptr<ClassMap>, PairHash> maps;
  tsl::robin_map<uint64_t, std::vector<Merged>> merged;
};

DeviceClassTable::DeviceClassTable(uint32_t device_count)
    : device_count_(device_count), tables_(std::make_unique<Tables>()) {
  std::vector<uint64_t> labels(device_count, 0);
  uniform_ = Intern(labels);
  std::iota(labels.begin(), labels.end(), uint64_t{0});
  distinct_ = Intern(labels);
}

DeviceClassTable::~DeviceClassTable() = default;

const DeviceClasses* DeviceClassTable::Intern(std::span<const uint64_t> labels) {
  CheckInternal(labels.size() == device_count_, "one label per device");
  auto classes = std::make_unique<DeviceClasses>();
  classes->first_device_ = Renumber(labels, classes->class_of_);
  auto& bucket = tables_->by_hash[HashOf(classes->class_of_)];
  for (const DeviceClasses* known : bucket) {
    if (known->class_of_ == classes->class_of_) return known;
  }
  bucket.push_back(classes.get());
  tables_->all.push_back(std::move(classes));
  return bucket.back();
}

const DeviceClasses* DeviceClassTable::Join(const DeviceClasses* a, const DeviceClasses* b) {
  if (a == b || b == uniform_ || a == distinct_) return a;
  if (a == uniform_ || b == distinct_) return b;
  if (a > b) std::swap(a, b);
  auto found = tables_->joins.find({a, b});
  if (found != tables_->joins.end()) return found->second;
  std::vector<uint64_t> labels(device_count_);
  for (uint32_t d = 0; d < device_count_; ++d) {
    labels[d] = uint64_t{a->class_of_[d]} * b->count() + b->class_of_[d];
  }
  const DeviceClasses* join = Intern(labels);
  tables_->joins[{a, b}] = join;
  return join;
}

const DeviceClasses* DeviceClassTable::Merge(const DeviceClasses* fine,
                                             std::span<const uint64_t> labels) {
  CheckInternal(labels.size() == fine->count(), "one label per class");
  if (fine == distinct_) return Intern(labels);
  Merged merged{fine, {}, nullptr};
  // Numbered by first class, which is by first device.
  const size_t count = Renumber(labels, merged.numbers).size();
  if (count == fine->count()) return fine;
  auto& bucket = tables_->merged[HashOf(merged.numbers) ^ Mix(reinterpret_cast<uintptr_t>(fine))];
  for (const Merged& known : bucket) {
    if (known.fine == fine && known.numbers == merged.numbers) return known.classes;
  }
  std::vector<uint64_t> of_devices(device_count_);
  for (uint32_t d = 0; d < device_count_; ++d) of_devices[d] = merged.numbers[fine->class_of_[d]];
  merged.classes = Intern(of_devices);
  bucket.push_back(std::move(merged));
  return bucket.back().classes;
}

const ClassMap* DeviceClassTable::MapOf(const DeviceClasses* fine, const DeviceClasses* coarse) {
  if (fine == coarse) return nullptr;
  auto& map = tables_->maps[{fine, coarse}];
  if (map == nullptr) {
    map = std::make_unique<ClassMap>(fine->count());
    for (uint32_t c = 0; c < fine->count(); ++c) {
      (*map)[c] = coarse->class_of(fine->first_device(c));
    }
  }
  return map.get();
}

}  // namespace gshard
