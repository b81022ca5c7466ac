// Addresses in fast memory, and what peaks are without what lies there.
#include "core/cost/memory/fast_memory.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/cost/memory/peak_memory.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

using Bools = std::vector<bool>;

TEST_CASE("A value needs one piece of fast memory for its life", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(memory.Place({{{0, 1}}, 4, 0}) == Bools{true});  // 0 to 4
  CHECK(memory.Place({{{0, 7}}, 4, 0}) == Bools{true});  // 4 to 8
  // From step 2 on 8 of 12 bytes are free, four below and four above the value that stays.
  CHECK(memory.Place({{{2, 7}}, 8, 0}) == Bools{false});
  CHECK(memory.Place({{{2, 7}}, 4, 0}) == Bools{true});
  CHECK(memory.Place({{{1, 7}}, 4, 0}) == Bools{true});
  CHECK(memory.PeakBytes() == 12);
  CHECK(memory.EndAddress() == 12);
}

TEST_CASE("What a loop carries is there for all its uses or for none", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(memory.Place({{{0, 1}, {4, 7}}, 8, 0, false, true}) == Bools{true, true});
  // Between its old and its new value others lie in its place.
  CHECK(memory.Place({{{2, 3}}, 12, 0}) == Bools{true});
  CHECK(memory.Place({{{1, 1}, {2, 2}}, 4, 0, false, true}) == Bools{false, false});
}

TEST_CASE("A value is given up where others need the room, and fetched again", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(memory.Place({{{2, 4}}, 8, 0}) == Bools{true});
  // It takes a step to fetch it: at 5 it cannot be there yet.
  CHECK(memory.Place({{{0, 0}, {1, 1}, {5, 5}, {6, 6}}, 8, 0}) == Bools{true, true, false, true});
  // A copy is fetched before its first use, too; before the first step there is no time.
  FastMemory copies(8, 4);
  CHECK(copies.Place({{{0, 0}, {3, 3}}, 4, 0, true}) == Bools{false, true});
  CHECK(copies.Place({{{2, 2}}, 4, 0, true}) == Bools{false});
  CHECK(copies.Place({{{1, 1}}, 4, 0, true}) == Bools{true});
}

TEST_CASE("Those come first that kernels move most bytes of", "[cost][memory]") {
  FastMemory memory(8, 8);
  const std::vector<FastMemoryValue> values = {
      {{{0, 1}}, 8, 8}, {{{0, 1}}, 4, 20}, {{{0, 1}}, 4, 8}};
  CHECK(PlaceBestFirst(memory, values) == std::vector<Bools>{{false}, {true}, {true}});
}

// The peak in arrays of 4 KiB, with room for so many in fast memory.
int64_t PeakInArrays(const std::string& text, int64_t fast) {
  auto module = Parsed(text);
  MemoryOptions options;
  options.fast_memory_bytes = fast * 4096;
  return PeakMemory(*module, options).peak_bytes / 4096;
}

TEST_CASE("A loop's stack is in fast memory where there is room", "[cost][memory]") {
  const std::string text = R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
condition {
  p = (s32[], f32[8,1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[8,1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  stack = f32[8,1024] get-tuple-element(p), index=1
  x = f32[1024] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  zero = s32[] constant(0)
  y = f32[1024] reverse(x), dimensions={0}
  row = f32[1,1024] reshape(y)
  filled = f32[8,1024] dynamic-update-slice(stack, row, i, zero)
  ROOT t = (s32[], f32[8,1024], f32[1024]) tuple(next, filled, x)
}
ENTRY e {
  x = f32[1024] parameter(0)
  z = s32[] constant(0)
  nothing = f32[] constant(0)
  empty = f32[8,1024] broadcast(nothing), dimensions={}
  t = (s32[], f32[8,1024], f32[1024]) tuple(z, empty, x)
  l = (s32[], f32[8,1024], f32[1024]) while(t), condition=condition, body=body
  stack = f32[8,1024] get-tuple-element(l), index=1
  ROOT r = f32[1024] reduce(stack, nothing), dimensions={0}, to_apply=add
})";
  CHECK(PeakInArrays(text, 0) == 10);  // x, the stack, a row or the result
  CHECK(PeakInArrays(text, 16) == 2);  // x, the result
  CHECK(PeakInArrays(text, 4) == 10);  // the row is there, the stack does not fit
}

}  // namespace
}  // namespace gshard
