#include "backends/cpu/memory/value_pool.h"

#include <catch2/catch.hpp>

namespace gshard::cpu {
namespace {

TEST_CASE("pieces that were given back are used again, lowest first", "[cpu]") {
  ValuePool pool(1024);
  CHECK(pool.IsUnused());
  const auto a = pool.Take(100), b = pool.Take(300), c = pool.Take(64);
  CHECK(a.size() == 100);
  CHECK(b.data() == a.data() + 128);
  CHECK(c.data() == b.data() + 320);
  CHECK(pool.peak_bytes() == 512);
  pool.Return(a);
  CHECK(pool.Take(65).data() == a.data());
  pool.Return(b);
  pool.Return(c);  // b, c and the rest are one piece again
  const auto rest = pool.Take(896);
  CHECK(rest.data() == b.data());
  CHECK(pool.Take(1).empty());
  pool.Return(rest);
  pool.Return(std::span(a.data(), 65));
  CHECK(pool.IsUnused());
  CHECK(pool.Take(1024).data() == a.data());
  CHECK(pool.peak_bytes() == 1024);
}

TEST_CASE("what has to be held is, beside the region", "[cpu]") {
  ValuePool pool(64);
  const auto inside = pool.TakeAnyway(64), outside = pool.TakeAnyway(4096);
  CHECK(outside.size() == 4096);
  CHECK(pool.peak_bytes() == 64 + 4096);
  pool.Return(outside);
  CHECK_FALSE(pool.IsUnused());
  pool.Return(inside);
  CHECK(pool.IsUnused());
  CHECK(pool.Take(64).data() == inside.data());
}

}  // namespace
}  // namespace gshard::cpu
