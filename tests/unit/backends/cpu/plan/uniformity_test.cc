#include "backends/cpu/plan/uniformity.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "backends/cpu/plan/lowering.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

TEST_CASE("known values that are equal operations on equal values are computed once", "[plan]") {
  auto module = ParseModule(SourceText::FromString("test.hlo", R"(HloModule m, num_partitions=8
ENTRY e {
  p = u32[] partition-id()
  two = u32[] constant(2)
  also_two = u32[] constant(2)
  a = u32[] divide(p, two)
  b = u32[] divide(p, also_two)
  c = u32[] remainder(p, two)
  as_integer = s32[] constant(1065353216)
  as_float = f32[] constant(1)
  integer = s64[] convert(as_integer)
  float = s64[] convert(as_float)
  ROOT r = (u32[], u32[], u32[], s64[], s64[]) tuple(a, b, c, integer, float)
}
)"));
  REQUIRE(module);
  auto program = LowerModule(**module, {1, 8}, {});
  REQUIRE(program);
  REQUIRE(AnalyzeUniformity(**program, {}));
  const auto result = [&](size_t k) -> const Value& {
    return (*program)->values[(*program)->results[k]];
  };
  for (size_t k = 0; k < 5; ++k) REQUIRE(result(k).IsKnown());
  CHECK(result(0).known.data() == result(1).known.data());
  CHECK(result(0).classes == result(1).classes);
  CHECK(result(0).classes->count() == 4);
  CHECK(result(2).classes->count() == 2);
  const auto number = [&](size_t k) {
    int64_t x = 0;
    std::memcpy(&x, result(k).known.data(), sizeof x);
    return x;
  };
  CHECK(number(3) == 1065353216);  // the same bytes, of another type
  CHECK(number(4) == 1);
}

}  // namespace
}  // namespace gshard::cpu
