#include "backends/cpu/memory/memory.h"

#include <catch2/catch.hpp>

namespace gshard::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST_CASE("regions that were given up serve several new ones", "[cpu]") {
  { const MappedRegion all_that_was_spare(512 * kMiB); }
  const int64_t before = AvailableMemory();
  const std::byte* given_up = nullptr;
  {
    MappedRegion region(256 * kMiB);
    region.Shorten(96 * kMiB);
    CHECK(region.size() == 96 * kMiB);
    given_up = region.data();
  }
  CHECK(before > 0);
  const MappedRegion a(32 * kMiB), b(64 * kMiB);
  CHECK(a.data() == given_up);
  CHECK(b.data() == given_up + 32 * kMiB);
}

}  // namespace
}  // namespace gshard::cpu
