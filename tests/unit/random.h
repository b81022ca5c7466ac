// Random numbers that a seed determines on every machine.
#ifndef GSHARD_TESTS_UNIT_RANDOM_H_
#define GSHARD_TESTS_UNIT_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace gshard {

// Knuth's linear congruential generator (MMIX), its upper bits.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  size_t Below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state_ >> 33) % n;
  }

 private:
  uint64_t state_;
};

}  // namespace gshard

#endif  // GSHARD_TESTS_UNIT_RANDOM_H_
