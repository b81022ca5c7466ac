#include "core/analysis/trip_count.h"

#include <fmt/format.h>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A loop from 0 in steps of 1 to `bound`, or, where the condition is an opaque fusion, as recorded.
std::optional<int64_t> TripsOf(std::string_view condition, std::string_view config) {
  auto module = Parsed(fmt::format(R"(HloModule m
less {{
  a = s32[] parameter(0)
  n = s32[] constant(5)
  ROOT l = pred[] compare(a, n), direction=LT
}}
c {{
  s = (s32[], f32[8]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT l = pred[] {}
}}
b {{
  s = (s32[], f32[8]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  u = s32[] add(t, one)
  ROOT r = (s32[], f32[8]) tuple(u, x)
}}
ENTRY e {{
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[8]) tuple(z, x)
  ROOT w = (s32[], f32[8]) while(s), condition=c, body=b{}
}})",
                                   condition, config));
  return TripCount(*module->entry()->root());
}

TEST_CASE("Trips follow from the text, else from what XLA recorded", "[analysis]") {
  const char* const kCompare = "compare(t, n), direction=LT";
  const char* const kFused = "fusion(t), kind=kLoop, calls=less";
  const char* const kRecord = R"(, backend_config={"known_trip_count":{"n":"7"}})";
  CHECK(TripsOf(kCompare, "") == 5);
  CHECK(TripsOf(kCompare, kRecord) == 5);
  CHECK(TripsOf(kFused, kRecord) == 7);
  CHECK(TripsOf(kFused, "") == std::nullopt);
}

TEST_CASE("Trips are seen through annotations of the counter and its bound", "[analysis]") {
  auto module = Parsed(R"(HloModule m
c {
  s = (s32[], f32[8]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  marked_t = s32[] custom-call(t), custom_call_target="Sharding", sharding={replicated}
  n = s32[] constant(5)
  marked_n = s32[] custom-call(n), custom_call_target="Sharding", sharding={replicated}
  ROOT l = pred[] compare(marked_t, marked_n), direction=LT
}
b {
  s = (s32[], f32[8]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  marked_t = s32[] custom-call(t), custom_call_target="Sharding", sharding={replicated}
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  marked_one = s32[] custom-call(one), custom_call_target="Sharding", sharding={replicated}
  u = s32[] add(marked_t, marked_one)
  marked_u = s32[] custom-call(u), custom_call_target="Sharding", sharding={replicated}
  ROOT r = (s32[], f32[8]) tuple(marked_u, x)
}
ENTRY e {
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[8]) tuple(z, x)
  ROOT w = (s32[], f32[8]) while(s), condition=c, body=b
})");
  CHECK(TripCount(*module->entry()->root()) == 5);
}

TEST_CASE("Of several bounds the nearest ends a loop, if all are known", "[analysis]") {
  // As TensorFlow writes the loop of a recurrence: over its steps, of which there are at most so
  // many.
  const auto counter = [](const std::string& condition) {
    auto module = Parsed(R"(HloModule m
c {
  s = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  j = s32[] get-tuple-element(s), index=1
  error = f32[] get-tuple-element(s), index=2
  six = s32[] constant(6)
  ten = s32[] constant(10)
  limit = f32[] constant(0.1)
  a = pred[] compare(i, six), direction=LT
  b = pred[] compare(j, ten), direction=LT
  d = pred[] compare(error, limit), direction=GT
  ROOT r = pred[] )" + condition +
                         R"(
}
b {
  s = (s32[], s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  j = s32[] get-tuple-element(s), index=1
  error = f32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  three = s32[] constant(3)
  next_i = s32[] add(i, one)
  next_j = s32[] add(j, three)
  less = f32[] sine(error)
  ROOT r = (s32[], s32[], f32[]) tuple(next_i, next_j, less)
}
ENTRY e {
  x = f32[] parameter(0)
  z = s32[] constant(0)
  s = (s32[], s32[], f32[]) tuple(z, z, x)
  ROOT w = (s32[], s32[], f32[]) while(s), condition=c, body=b
})");
    const Instruction& loop = *module->entry()->root();
    const auto found = CounterOf(loop);
    return std::pair(found ? found->trips : -1, MostTrips(loop).value_or(-1));
  };
  CHECK(counter("and(a, b)") == std::pair<int64_t, int64_t>(4, 4));
  CHECK(counter("and(a, a)") == std::pair<int64_t, int64_t>(6, 6));
  CHECK(counter("and(a, d)") == std::pair<int64_t, int64_t>(-1, 6));
}

}  // namespace
}  // namespace gshard
