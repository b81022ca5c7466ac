// Peaks and what is computed again, by hand, in arrays of 4 KiB.
#include "core/remat/rematerialization.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/remat/fit_to_memory.h"
#include "ir/verify/verifier.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

constexpr int64_t kArray = 4096;

RematStats Fit(Module& module, int64_t arrays) {
  PassContext context;
  FitOptions options;
  options.limit_bytes = arrays * kArray + kArray / 2;  // scalars do not count
  RematStats stats = *FitToMemory(module, context, options);
  CHECK(VerifyModule(module).has_value());
  CHECK(stats.peak_after <= stats.peak_before);
  CHECK(PeakMemory(module).peak_bytes == stats.peak_after);
  return stats;
}

// `depth` values that are read again in reverse order.
std::string Chain(int depth, const std::string& input) {
  std::string text, value = input;
  for (int i = 0; i < depth; ++i) {
    std::string n = std::to_string(i);
    text += "  a" + n + " = f32[1024] sine(" + value + ")\n";
    text += "  b" + n + " = f32[1024] reverse(a" + n + "), dimensions={0}\n";
    value = "b" + n;
  }
  for (int i = depth; i-- > 0;) {
    std::string n = std::to_string(i);
    text += "  c" + n + " = f32[1024] multiply(" + value + ", a" + n + ")\n";
    text += "  d" + n + " = f32[1024] reverse(c" + n + "), dimensions={0}\n";
    value = "d" + n;
  }
  return text;
}

std::unique_ptr<Module> ChainModule(int depth) {
  return Parsed("HloModule m\nENTRY e {\n  x = f32[1024] parameter(0)\n" + Chain(depth, "x") +
                "  ROOT r = f32[1024] negate(d0)\n}");
}

TEST_CASE("A chain of values is computed again from what is kept", "[remat]") {
  auto module = ChainModule(12);
  int64_t before = PeakMemory(*module).peak_bytes / kArray;
  CHECK(before == 15);
  CHECK(Fit(*module, before).values == 0);
  int64_t instructions = 0;
  for (int64_t limit : {12, 9, 7}) {
    RematStats stats = Fit(*module, limit);
    CHECK(stats.peak_after <= limit * kArray + kArray / 2);
    CHECK(stats.values > 0);
    instructions += stats.instructions;
  }
  // About one forward pass more, not one per value.
  CHECK(instructions < 4 * 24);
}

TEST_CASE("Inside a loop the body's own values are computed again", "[remat]") {
  auto module = Parsed(R"(HloModule m
condition {
  p = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1024] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
)" + Chain(8, "x") + R"(
  s = f32[1024] add(d0, x)
  ROOT t = (s32[], f32[1024]) tuple(next, s)
}
ENTRY e {
  x = f32[1024] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[1024]) tuple(z, x)
  w = (s32[], f32[1024]) while(t), condition=condition, body=body
  ROOT r = f32[1024] get-tuple-element(w), index=1
})");
  int64_t before = PeakMemory(*module).peak_bytes / kArray;
  RematStats stats = Fit(*module, before - 4);
  CHECK(stats.peak_after <= (before - 4) * kArray + kArray / 2);
}

TEST_CASE("Collectives and random numbers are not repeated; an impossible limit ends", "[remat]") {
  auto module = Parsed(R"(HloModule m, num_partitions=2
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[1024] parameter(0)
  a = f32[1024] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum
  b = f32[1024] reverse(a), dimensions={0}
  c = f32[1024] reverse(b), dimensions={0}
  d = f32[1024] reverse(c), dimensions={0}
  ROOT r = f32[1024] multiply(d, a)
})");
  RematStats stats = Fit(*module, 1);
  CHECK(stats.values == 0);
  CHECK(stats.peak_after > kArray);
}

}  // namespace
}  // namespace gshard
