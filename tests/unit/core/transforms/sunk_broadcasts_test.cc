#include "core/transforms/tpu/sunk_broadcasts.h"

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// What becomes of a program, as text that the parser takes and that a second run leaves alone.
std::string Sunk(const std::string& text, bool changes = true) {
  auto module = Parsed(text);
  CHECK(SinkBroadcasts(*module) == changes);
  auto again = Parsed(PrintModule(*module));
  CHECK_FALSE(SinkBroadcasts(*again));
  return PrintModule(*again);
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A loop that hides what `mask` says, of `given` and with `next` as the mask's next value.
std::string Masked(const std::string& given, const std::string& next, const std::string& after) {
  return R"(HloModule m
body {
  s = (s32[], f32[4,8], pred[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1
  mask = pred[4,8] get-tuple-element(s), index=2
  other = pred[4,8] not(mask)
  hidden = f32[4,8] negate(x)
  y = f32[4,8] select(mask, x, hidden)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4,8], pred[4,8]) tuple(j, y, )" +
         next + R"()
}
more {
  s = (s32[], f32[4,8], pred[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[4,8] parameter(0)
  small = pred[8] parameter(1)
  large = pred[4,8] parameter(2)
  zero = s32[] constant(0)
  given = pred[4,8] )" +
         given + R"(
  init = (s32[], f32[4,8], pred[4,8]) tuple(zero, x, given)
  loop = (s32[], f32[4,8], pred[4,8]) while(init), condition=more, body=body
)" + after +
         "}";
}

constexpr char kBroadcast[] = "broadcast(small), dimensions={1}";
constexpr char kResult[] = "  ROOT r = f32[4,8] get-tuple-element(loop), index=1\n";

TEST_CASE("a loop carries what a broadcast is made of", "[sunk_broadcasts]") {
  const std::string text = Sunk(Masked(kBroadcast, "mask", kResult));
  CHECK(Has(text, "(s32[], f32[4,8], pred[8]) while("));
  CHECK(Has(text, "mask = pred[4,8] broadcast("));
  CHECK_FALSE(Has(text, "given = "));
}

TEST_CASE("who reads a sunk broadcast behind the loop reads the one before it",
          "[sunk_broadcasts]") {
  const std::string text = Sunk(Masked(kBroadcast, "mask", R"(
  m = pred[4,8] get-tuple-element(loop), index=2
  y = f32[4,8] get-tuple-element(loop), index=1
  ROOT r = f32[4,8] select(m, y, x)
)"));
  CHECK(Has(text, "(s32[], f32[4,8], pred[8]) while("));
  CHECK(Has(text, "select(%given, "));
}

TEST_CASE("broadcasts that a loop changes, and what is none, stay", "[sunk_broadcasts]") {
  Sunk(Masked(kBroadcast, "other", kResult), false);
  Sunk(Masked("not(large)", "mask", kResult), false);
  Sunk(Masked(kBroadcast, "mask", "  ROOT r = (s32[], f32[4,8], pred[4,8]) copy(loop)\n"), false);
}

}  // namespace
}  // namespace gshard
