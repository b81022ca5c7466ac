#include "core/analysis/loop_scalars.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A loop of five trips whose counter goes 3, 5, .. 11; `body` defines "x" from "i" and "id".
std::string LoopWith(const std::string& body) {
  return R"(HloModule m, num_partitions=8
condition {
  p = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(13)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  same = s32[] get-tuple-element(p), index=1
  value = f32[] get-tuple-element(p), index=2
  number = u32[] partition-id()
  id = s32[] convert(number)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
)" + body +
         R"(
  next = s32[] add(i, two)
  ROOT t = (s32[], s32[], f32[]) tuple(next, same, value)
}
ENTRY e {
  start = s32[] constant(3)
  seven = s32[] constant(7)
  v = f32[] parameter(0)
  init = (s32[], s32[], f32[]) tuple(start, seven, v)
  ROOT loop = (s32[], s32[], f32[]) while(init), condition=condition, body=body
}
)";
}

std::optional<LoopScalars> Evaluated(const Module& module, int64_t devices = 8) {
  const Instruction* loop = module.entry()->root();
  for (const Instruction* x : loop->called(1)->instructions()) {
    if (x->name() != "x") continue;
    const Instruction* const scalars[] = {x};
    return EvaluateInLoop(*loop, scalars, devices);
  }
  FAIL("no x");
  return std::nullopt;
}

TEST_CASE("Arithmetic of counter and device, devices alike in groups", "[loop_scalars]") {
  // (i - 3) / 2 + device / 4 * 10, plus the 7 that the loop carries.
  auto module = Parsed(LoopWith(R"(
  three = s32[] constant(3)
  since = s32[] subtract(i, three)
  trip = s32[] divide(since, two)
  four = s32[] constant(4)
  ten = s32[] constant(10)
  half = s32[] divide(id, four)
  far = s32[] multiply(half, ten)
  sum = s32[] add(trip, far)
  x = s32[] add(sum, same))"));
  auto values = Evaluated(*module);
  REQUIRE(values);
  CHECK(values->trips == 5);
  REQUIRE(values->groups == std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  for (int64_t trip = 0; trip < 5; ++trip) {
    CHECK(values->At(0, trip, 0) == trip + 7);
    CHECK(values->At(0, trip, 1) == trip + 17);
  }
}

TEST_CASE("Tables are looked up, out of bounds as XLA does", "[loop_scalars]") {
  auto module = Parsed(LoopWith(R"(
  table = s32[12] constant({0,1,2,3,4,5,6,7,8,9,10,11})
  grid = s32[4,3] reshape(table)
  row = s32[1,3] dynamic-slice(grid, i, zero), dynamic_slice_sizes={1,3}
  cell = s32[1,1] slice(row), slice={[0:1], [1:2]}
  x = s32[] reshape(cell))"));
  auto values = Evaluated(*module);
  REQUIRE(values);
  CHECK(values->groups.size() == 1);
  CHECK(values->At(0, 0, 0) == 10);  // row 3
  CHECK(values->At(0, 4, 0) == 10);  // row 11 becomes the last
}

TEST_CASE("Selects, comparisons and small types", "[loop_scalars]") {
  auto module = Parsed(LoopWith(R"(
  six = s32[] constant(6)
  late = pred[] compare(i, six), direction=GE
  big = s32[] constant(200)
  narrow = s8[] convert(big)
  wide = s32[] convert(narrow)
  x = s32[] select(late, wide, id))"));
  auto values = Evaluated(*module);
  REQUIRE(values);
  CHECK(values->groups.size() == 8);
  CHECK(values->At(0, 1, 5) == 5);
  CHECK(values->At(0, 2, 5) == -56);  // 200 as s8
}

TEST_CASE("What depends on data is not known", "[loop_scalars]") {
  auto module = Parsed(LoopWith("  x = s32[] convert(value)"));
  CHECK_FALSE(Evaluated(*module));
  // More values than it is worth.
  module = Parsed(LoopWith("  x = s32[] add(i, id)"));
  CHECK(Evaluated(*module));
  CHECK_FALSE(Evaluated(*module, int64_t{1} << 40));
}

}  // namespace
}  // namespace gshard
