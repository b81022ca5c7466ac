// Against the same, an element after the other.
#include "backends/cpu/kernels/compare_bits.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace gshard::cpu {
namespace {

template <typename Bits>
void CheckLook(uint64_t infinity) {
  constexpr auto kMagnitude = static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  std::mt19937_64 random(1);
  for (const size_t count : {0U, 1U, 3U, 63U, 64U, 65U, 300U, 1000U}) {
    std::vector<Bits> a(count);
    uint64_t largest = 0;
    for (Bits& bits : a) {
      bits = static_cast<Bits>(random());
      const auto magnitude = static_cast<Bits>(bits & kMagnitude);
      if (magnitude < infinity) largest = std::max<uint64_t>(largest, magnitude);
    }
    const auto total = static_cast<int64_t>(count);
    const BitsLook alone = LookAtBits(a.data(), a.data(), total, sizeof(Bits), infinity);
    CHECK(alone.largest == largest);
    CHECK_FALSE(alone.differs);
    for (size_t at = 0; at < count; at += 7) {
      std::vector<Bits> b = a;
      b[at] ^= static_cast<Bits>(Bits{1} << (at % (8 * sizeof(Bits))));
      const BitsLook look = LookAtBits(a.data(), b.data(), total, sizeof(Bits), infinity);
      CHECK(look.largest == largest);
      CHECK(look.differs);
    }
  }
}

TEST_CASE("one look tells the largest number and whether anything differs", "[cpu]") {
  CheckLook<uint16_t>(0x7c00);
  CheckLook<uint16_t>(0x7f80);
  CheckLook<uint32_t>(0x7f800000);
  CheckLook<uint64_t>(0x7ff0000000000000);
}

template <typename T>
void CheckDistance() {
  std::mt19937_64 random(2);
  std::normal_distribution<T> normal;
  for (const size_t count : {0U, 1U, 31U, 32U, 33U, 257U}) {
    std::vector<T> a(count), b(count);
    T largest = 0;
    for (size_t i = 0; i < count; ++i) {
      a[i] = normal(random);
      b[i] = normal(random);
      largest = std::max(largest, std::abs(a[i] - b[i]));
    }
    const auto total = static_cast<int64_t>(count);
    CHECK(LargestDistance(a.data(), b.data(), total) == largest);
    for (const T other :
         {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::quiet_NaN()}) {
      for (size_t at = 0; at < count; at += 5) {
        std::vector<T> c = b;
        c[at] = other;
        CHECK_FALSE(std::isfinite(LargestDistance(a.data(), c.data(), total)));
      }
    }
  }
}

TEST_CASE("the largest distance, with what is not finite above all", "[cpu]") {
  CheckDistance<float>();
  CheckDistance<double>();
}

}  // namespace
}  // namespace gshard::cpu
