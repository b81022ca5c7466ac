// Addresses by hand, in arrays of 16 KiB. Foreign calls compute nothing in place and are no parts
// of other kernels.
#include "core/cost/memory/heap_placement.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/cost/memory/peak_memory.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

constexpr int64_t kArray = 16384;  // f32[4096]

MemoryReport OnTpu(const std::string& text) {
  auto module = Parsed("HloModule m, is_scheduled=true\n" + text);
  MemoryOptions options;
  options.fusion.for_tpu = true;
  MemoryReport report = PeakMemory(*module, options);
  int64_t rows = 0;
  for (const LiveBuffer& row : report.at_peak) rows += row.bytes;
  CHECK(rows == report.peak_bytes);
  CHECK(PeakBytes(*module, options) == report.peak_bytes);
  return report;
}

TEST_CASE("A value that fits in no free piece lies above all others", "[cost][memory]") {
  // a is at 0, b at 2, c where a was; so d finds 1 free at 1, and is at 3.
  const MemoryReport report = OnTpu(R"(
ENTRY e {
  x = f32[4096] parameter(0)
  a = f32[8192] custom-call(x), custom_call_target="f"
  b = f32[4096] custom-call(a), custom_call_target="f"
  c = f32[4096] custom-call(b), custom_call_target="f"
  d = f32[8192] custom-call(c, b), custom_call_target="f"
  ROOT r = f32[4096] custom-call(d, b), custom_call_target="f"
})");
  CHECK(report.peak_bytes == 7 * kArray);  // with x and r
  CHECK(report.temp_bytes == 5 * kArray);
  CHECK(report.fragmentation_bytes == kArray);
  REQUIRE(report.at_peak.back().kind == BufferClass::kFragmentation);
  CHECK(report.at_peak.back().instruction->name() == "d");
}

TEST_CASE("The smallest free piece is taken that is large enough", "[cost][memory]") {
  // a, b, c, d, e lie at 0, 3, 4, 5, 6. Without a and c there are 3 free at 0 and 1 at 4: f is at
  // 4, so that g has 0. At the lowest address f would be at 0 and g at 7.
  const MemoryReport report = OnTpu(R"(
ENTRY e {
  x = f32[4096] parameter(0)
  a = f32[12288] custom-call(x), custom_call_target="f"
  b = f32[4096] custom-call(x), custom_call_target="f"
  c = f32[4096] custom-call(x), custom_call_target="f"
  d = f32[4096] custom-call(x), custom_call_target="f"
  e = f32[4096] custom-call(a, c), custom_call_target="f"
  f = f32[4096] custom-call(e), custom_call_target="f"
  g = f32[12288] custom-call(f), custom_call_target="f"
  ROOT r = f32[4096] custom-call(b, d, f, g), custom_call_target="f"
})");
  CHECK(report.temp_bytes == 7 * kArray);
  CHECK(report.fragmentation_bytes == 0);
}

TEST_CASE("What a loop carries has its place free between the old value and the new",
          "[cost][memory]") {
  // x is at 0, y and later u at 1. When t is made, x is dead: t is at 0, until the new x is made.
  const MemoryReport report = OnTpu(R"(
body {
  state = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[4096] get-tuple-element(state), index=1
  y = f32[4096] custom-call(x), custom_call_target="f"
  t = f32[4096] custom-call(y), custom_call_target="f"
  u = f32[4096] custom-call(t), custom_call_target="f"
  next = f32[4096] custom-call(u), custom_call_target="f"
  ROOT new = (s32[], f32[4096]) tuple(i, next)
}
condition {
  state = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  ROOT less = pred[] compare(i, i), direction=LT
}
ENTRY e {
  i = s32[] parameter(0)
  start = f32[4096] custom-call(i), custom_call_target="f"
  state = (s32[], f32[4096]) tuple(i, start)
  loop = (s32[], f32[4096]) while(state), condition=condition, body=body
  done = f32[4096] get-tuple-element(loop), index=1
  ROOT r = f32[] custom-call(done), custom_call_target="f"
})");
  CHECK(report.temp_bytes == 2 * kArray);
}

TEST_CASE("A conditional's result is where its branch makes it", "[cost][memory]") {
  // a is at 0, t at 1 and the branch's result at 2.
  const MemoryReport report = OnTpu(R"(
branch {
  x = f32[4096] parameter(0)
  t = f32[4096] custom-call(x), custom_call_target="f"
  ROOT y = f32[4096] custom-call(x, t), custom_call_target="f"
}
other {
  x = f32[4096] parameter(0)
  ROOT y = f32[4096] custom-call(x), custom_call_target="f"
}
ENTRY e {
  p = pred[] parameter(0)
  a = f32[4096] custom-call(p), custom_call_target="f"
  c = f32[4096] conditional(p, a, a), true_computation=branch, false_computation=other
  ROOT r = f32[] custom-call(a, c), custom_call_target="f"
})");
  CHECK(report.temp_bytes == 3 * kArray);
}

TEST_CASE("Elements in another order are not written over those that are read", "[cost][memory]") {
  const char* const kText = R"(
ENTRY e {
  p = f32[] parameter(0)
  x = f32[64,64]{1,0} custom-call(p), custom_call_target="f"
  y = f32[64,64]{LAYOUT} copy(x)
  ROOT r = f32[] custom-call(y), custom_call_target="f"
})";
  std::string same = kText, turned = kText;
  same.replace(same.find("LAYOUT"), 6, "1,0");
  turned.replace(turned.find("LAYOUT"), 6, "0,1");
  CHECK(OnTpu(same).temp_bytes == kArray);
  CHECK(OnTpu(turned).temp_bytes == 2 * kArray);
}

}  // namespace
}  // namespace gshard
