// Addresses in fast memory, and what peaks are without what lies there.
#include "core/cost/memory/fast_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/cost/memory/peak_memory.h"
#include "tests/unit/core/propagation/propagated.h"
#include "tests/unit/random.h"

namespace gshard {
namespace {

// By use: "-" elsewhere, "f" fetched for it, "s" there since it was made or since the use before.
std::string PlacesOf(FastMemory& memory, const FastMemoryValue& value) {
  std::string text;
  for (const FastUse use : memory.Place(value)) text += "-fs"[static_cast<size_t>(use)];
  return text;
}

TEST_CASE("A value needs one piece of fast memory for its life", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(PlacesOf(memory, {{{0, 1}}, 4, 0}) == "s");  // 0 to 4
  CHECK(PlacesOf(memory, {{{0, 7}}, 4, 0}) == "s");  // 4 to 8
  // From step 2 on 8 of 12 bytes are free, four below and four above the value that stays.
  CHECK(PlacesOf(memory, {{{2, 7}}, 8, 0}) == "-");
  CHECK(PlacesOf(memory, {{{2, 7}}, 4, 0}) == "s");
  CHECK(PlacesOf(memory, {{{1, 7}}, 4, 0}) == "s");
  CHECK(memory.PeakBytes() == 12);
  CHECK(memory.EndAddress() == 12);
}

TEST_CASE("What a loop carries is there for all its uses or for none", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(PlacesOf(memory, {{{0, 1}, {4, 7}}, 8, 0, false, true}) == "ss");
  // Between its old and its new value others lie in its place.
  CHECK(PlacesOf(memory, {{{2, 3}}, 12, 0}) == "s");
  CHECK(PlacesOf(memory, {{{1, 1}, {2, 2}}, 4, 0, false, true}) == "--");
}

TEST_CASE("A value is given up where others need the room, and fetched again", "[cost][memory]") {
  FastMemory memory(8, 12);
  CHECK(PlacesOf(memory, {{{2, 4}}, 8, 0}) == "s");
  // It takes a step to fetch it: at 5 it cannot be there yet.
  CHECK(PlacesOf(memory, {{{0, 0}, {1, 1}, {5, 5}, {6, 6}}, 8, 0}) == "ss-f");
  // A copy is fetched before its first use, too; before the first step there is no time.
  FastMemory copies(8, 4);
  CHECK(PlacesOf(copies, {{{0, 0}, {3, 3}}, 4, 0, true}) == "-f");
  CHECK(PlacesOf(copies, {{{2, 2}}, 4, 0, true}) == "-");
  CHECK(PlacesOf(copies, {{{1, 1}}, 4, 0, true}) == "f");
}

TEST_CASE("Those come first that kernels move most bytes of", "[cost][memory]") {
  FastMemory memory(8, 8);
  const std::vector<FastMemoryValue> values = {
      {{{0, 1}}, 8, 8}, {{{0, 1}}, 4, 20}, {{{0, 1}}, 4, 8}};
  CHECK(PlaceBestFirst(memory, values) == std::vector<std::vector<FastUse>>{{FastUse::kElsewhere},
                                                                            {FastUse::kStays},
                                                                            {FastUse::kStays}});
}

TEST_CASE("A value gets the lowest free address among few and many others", "[cost][memory]") {
  constexpr uint32_t kSteps = 128;
  constexpr int64_t kCapacity = 400;
  struct Placed {
    StepSpan steps;
    int64_t begin, end;
  };
  FastMemory memory(kSteps, kCapacity);
  std::vector<Placed> placed;
  int64_t end = 0;
  Random random(9);
  for (int i = 0; i < 600; ++i) {
    // Long and short lives: of the first most others are neighbours, of the second a few.
    const auto first = static_cast<uint32_t>(random.Below(kSteps));
    const auto length = static_cast<uint32_t>(random.Below(i % 3 == 0 ? kSteps : 4));
    const StepSpan steps = {first, std::min(first + length, kSteps - 1)};
    const auto bytes = static_cast<int64_t>(1 + random.Below(20));
    // The lowest address at which no other is in the way.
    int64_t address = 0;
    for (bool is_free = false; !is_free;) {
      is_free = true;
      for (const Placed& other : placed) {
        const bool is_beside = other.steps.first <= steps.last && steps.first <= other.steps.last;
        if (!is_beside || other.end <= address || address + bytes <= other.begin) continue;
        address = other.end;
        is_free = false;
      }
    }
    const bool fits = address + bytes <= kCapacity;
    CHECK(PlacesOf(memory, {{steps}, bytes, 0}) == (fits ? "s" : "-"));
    if (fits) placed.push_back({steps, address, address + bytes});
    if (fits) end = std::max(end, address + bytes);
    CHECK(memory.EndAddress() == end);
  }
  CHECK(placed.size() > 200);
  CHECK(placed.size() < 600);
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

// A fused program of three kernels, and what stands at its arrays' layouts and at its first kernel.
std::string FusedText(const std::string& tiles, const std::string& of_y,
                      const std::string& config) {
  const std::string array = "f32[8,128]{1,0" + tiles + "} ";
  return R"(HloModule m, is_scheduled=true
f {
  p = f32[8,128] parameter(0)
  ROOT r = f32[8,128] reverse(p), dimensions={0}
}
g {
  p = f32[8,128] parameter(0)
  ROOT r = f32[8,128] reverse(p), dimensions={1}
}
ENTRY e {
  x = )" +
         array + R"(parameter(0)
  y = f32[8,128]{1,0)" +
         tiles + of_y + R"(} fusion(x), kind=kLoop, calls=f)" + config + R"(
  z = )" +
         array + R"(fusion(y), kind=kLoop, calls=g
  ROOT w = )" +
         array + R"(negate(z)
})";
}

TEST_CASE("Text from before values are placed is planned, text from behind it is not",
          "[cost][memory]") {
  CHECK(PeakInArrays(FusedText(":T(8,128)", "", ""), 0) == 3);  // x, then two of y, z and w
  CHECK(PeakInArrays(FusedText(":T(8,128)", "", ""), 8) == 2);  // y and z are in fast memory
  // No other compiler's text has tiles.
  CHECK(PeakInArrays(FusedText("", "", ""), 8) == 3);
  // y is there, z is not, as the text says.
  CHECK(PeakInArrays(FusedText(":T(8,128)", "S(1)", ""), 8) == 2);
  CHECK(PeakInArrays(FusedText(":T(8,128)", "", R"(, backend_config={"estimated_cycles":"100"})"),
                     8) == 3);
}

}  // namespace
}  // namespace gshard
