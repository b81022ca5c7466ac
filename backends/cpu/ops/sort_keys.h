// Order of elements as unsigned integers, for sorting and selecting without comparing floats.
#ifndef GSHARD_BACKENDS_CPU_OPS_SORT_KEYS_H_
#define GSHARD_BACKENDS_CPU_OPS_SORT_KEYS_H_

#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace gshard::cpu {

// keys[i] < keys[k] iff in[i] comes before in[k]. `type` is a compute type. Floats are in total
// order (-NaN < -inf < .. < -0 < +0 < .. < +NaN); with `zeros_equal` both zeros get one key.
void SortKeys(DType type, bool descending, bool zeros_equal, const std::byte* in, int64_t count,
              uint64_t* keys);

// An element's key and its place.
struct KeyedIndex {
  uint64_t key;
  int64_t index;
};
inline bool Before(const KeyedIndex& a, const KeyedIndex& b) {
  return a.key != b.key ? a.key < b.key : a.index < b.index;
}

// Sorts by key, stable. `room` holds `count` more. Radix sort where it pays.
void SortByKey(KeyedIndex* items, int64_t count, KeyedIndex* room);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_SORT_KEYS_H_
