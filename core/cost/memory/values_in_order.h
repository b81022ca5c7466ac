// A map of instructions that keeps them in the order in which they came, so that sums over it do
// not depend on addresses, and that takes no memory for each of them.
#ifndef GSHARD_CORE_COST_MEMORY_VALUES_IN_ORDER_H_
#define GSHARD_CORE_COST_MEMORY_VALUES_IN_ORDER_H_

#include <tsl/robin_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/hash.h"
#include "ir/instruction.h"

namespace gshard {

// T: copied and made without arguments. For maps that are mostly of few instructions.
template <typename T>
class ValuesInOrder {
 public:
  using Entry = std::pair<const Instruction*, T>;

  // What is known of `x`, made if it is not there. Valid until the next one is made.
  T& operator[](const Instruction* x) {
    const size_t place = PlaceOf(x);
    if (place == entries_.size()) {
      if (place == 0) entries_.reserve(kFew / 2);
      if (place >= kFew) place_of_.emplace(x, place);
      entries_.emplace_back(x, T());
    }
    return entries_[place].second;
  }

  // Null: it is not there.
  const T* Find(const Instruction* x) const {
    const size_t place = PlaceOf(x);
    return place == entries_.size() ? nullptr : &entries_[place].second;
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static constexpr size_t kFew = 24;  // are looked for one by one

  // The number of entries if it is none of them.
  size_t PlaceOf(const Instruction* x) const {
    for (size_t i = 0; i < std::min(kFew, entries_.size()); ++i) {
      if (entries_[i].first == x) return i;
    }
    if (entries_.size() <= kFew) return entries_.size();
    const auto further = place_of_.find(x);
    return further == place_of_.end() ? entries_.size() : further->second;
  }

  std::vector<Entry> entries_;
  struct HashValue {
    size_t operator()(const Instruction* x) const { return HashPointer(0, x); }
  };
  tsl::robin_map<const Instruction*, size_t, HashValue> place_of_;  // of those after the first few
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_VALUES_IN_ORDER_H_
