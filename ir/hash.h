// Hashing of small integers and spans, for the interning tables. Not stable between versions: never
// let an order or a printed value depend on it.
#ifndef GSHARD_IR_HASH_H_
#define GSHARD_IR_HASH_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace gshard {

inline size_t HashCombine(size_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 32);
}

template <typename T>
size_t HashSpan(size_t seed, std::span<const T> values) {
  seed = HashCombine(seed, values.size());
  for (const T& value : values) seed = HashCombine(seed, static_cast<uint64_t>(value));
  return seed;
}

inline size_t HashPointer(size_t seed, const void* pointer) {
  return HashCombine(seed, reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace gshard

#endif  // GSHARD_IR_HASH_H_
