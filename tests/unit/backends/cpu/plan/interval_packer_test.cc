#include "backends/cpu/plan/interval_packer.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace gshard::cpu {
namespace {

TEST_CASE("buffers that do not live together share bytes", "[cpu]") {
  IntervalPacker packer;
  const uint32_t a = packer.Add(128, 0, 1), b = packer.Add(128, 2, 3), c = packer.Add(64, 1, 2);
  CHECK(packer.LowerBound() == 192);
  CHECK(packer.Pack() == 192);
  CHECK(packer.offset(a) == packer.offset(b));
  CHECK(packer.offset(c) != packer.offset(a));
}

TEST_CASE("a buffer is not reused at the program point of its last use", "[cpu]") {
  IntervalPacker packer;
  packer.Add(64, 0, 1);
  packer.Add(64, 1, 2);
  CHECK(packer.Pack() == 128);
}

TEST_CASE("random lifetimes never overlap and stay near the bound", "[cpu]") {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    struct Buffer {
      int64_t bytes;
      uint32_t begin, end, id;
    };
    IntervalPacker packer;
    std::vector<Buffer> buffers;
    for (int i = 0; i < 200; ++i) {
      const uint32_t begin = static_cast<uint32_t>(random() % 100);
      Buffer buffer{static_cast<int64_t>(random() % 50 + 1) * 64, begin,
                    begin + static_cast<uint32_t>(random() % 10), 0};
      buffer.id = packer.Add(buffer.bytes, buffer.begin, buffer.end);
      buffers.push_back(buffer);
    }
    const int64_t bound = packer.LowerBound();
    const int64_t peak = packer.Pack();
    REQUIRE(peak >= bound);
    CHECK(peak < bound * 13 / 10);
    for (const Buffer& a : buffers) {
      REQUIRE(packer.offset(a.id) + a.bytes <= peak);
      for (const Buffer& b : buffers) {
        if (a.id >= b.id || a.end < b.begin || b.end < a.begin) continue;
        REQUIRE((packer.offset(a.id) + a.bytes <= packer.offset(b.id) ||
                 packer.offset(b.id) + b.bytes <= packer.offset(a.id)));
      }
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
