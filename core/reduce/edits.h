// What the steps share: some of their items, and edits of a computation's list.
#ifndef GSHARD_CORE_REDUCE_EDITS_H_
#define GSHARD_CORE_REDUCE_EDITS_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard::reduce {

// Items [begin, end), those that there are.
template <typename T>
std::vector<T> Chosen(const std::vector<T>& items, int64_t begin, int64_t end) {
  const auto size = static_cast<int64_t>(items.size());
  return std::vector<T>(items.begin() + std::min(begin, size), items.begin() + std::min(end, size));
}

// Whoever reads a key reads its value from now on; values may be keys themselves.
void Redirect(Computation& computation,
              const std::unordered_map<const Instruction*, Instruction*>& by);

// The last `made` instructions of the list go to its front.
void MoveToFront(Computation& computation, size_t made);

// Those behind the first `before` instructions go behind `place`, one of the first.
void MoveBehind(Computation& computation, size_t before, const Instruction* place);

}  // namespace gshard::reduce

#endif  // GSHARD_CORE_REDUCE_EDITS_H_
