// The least of a sum of costs, by trying all values: what elimination is compared with.
#ifndef GSHARD_TESTS_AUTOSHARD_ENUMERATION_H_
#define GSHARD_TESTS_AUTOSHARD_ENUMERATION_H_

#include <algorithm>
#include <vector>

#include "core/autoshard/elimination.h"

namespace gshard::autoshard {

inline double LeastByEnumeration(const SumOfCosts& sum) {
  std::vector<int> values(sum.sizes.size(), 0);
  double least = sum.Of(values);
  for (;;) {
    size_t v = 0;
    while (v < values.size() && ++values[v] == sum.sizes[v]) values[v++] = 0;
    if (v == values.size()) return least;
    least = std::min(least, sum.Of(values));
  }
}

}  // namespace gshard::autoshard

#endif  // GSHARD_TESTS_AUTOSHARD_ENUMERATION_H_
