// Hash of short byte strings (names, shape texts): a few multiplications for typical lengths.
//
// Not stable across versions and not for untrusted tables without a growth bound.
#ifndef GSHARD_IR_TEXT_HASH_H_
#define GSHARD_IR_TEXT_HASH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace gshard {

inline uint64_t HashText(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  const char* p = text.data();
  size_t n = text.size();
  uint64_t hash = n * kMultiplier;
  auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  };
  uint64_t word = 0;
  for (; n >= 8; n -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    mix(word);
  }
  if (n >= 4) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    mix(low | (uint64_t{high} << 32));
  } else if (n > 0) {
    mix(uint64_t{static_cast<unsigned char>(p[0])} |
        (uint64_t{static_cast<unsigned char>(p[n / 2])} << 8) |
        (uint64_t{static_cast<unsigned char>(p[n - 1])} << 16));
  }
  return hash * kMultiplier;
}

struct TextHash {
  size_t operator()(std::string_view text) const { return HashText(text); }
};

}  // namespace gshard

#endif  // GSHARD_IR_TEXT_HASH_H_
