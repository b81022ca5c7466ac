// Where passes that should be one computation differ.
#include "core/pipeline/emit/stage_difference.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {
namespace {

TEST_CASE("Passes that compute the same and add up other values of it are told by these",
          "[pipeline]") {
  auto module = Parsed(R"(HloModule m
a {
  x = f32[4] parameter(0)
  up = f32[4] sine(x)
  down = f32[4] cosine(x)
  sums = f32[4] parameter(1)
  ROOT total = f32[4] add(sums, up)
}
b {
  x = f32[4] parameter(0)
  up = f32[4] sine(x)
  down = f32[4] cosine(x)
  sums = f32[4] parameter(1)
  ROOT total = f32[4] add(sums, down)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] call(x, x), to_apply=a
  ROOT z = f32[4] call(x, y), to_apply=b
})");
  Computation &a = *module->computations()[0], &b = *module->computations()[1];
  // The sums are the schedule's, not the text's.
  for (Computation* pass : {&a, &b}) {
    for (size_t i = 3; i < 5; ++i) pass->instructions()[i]->set_source({});
  }
  const Diagnostic error = UnlikeStages(*module, "stages 0 and 1", a, b);
  CHECK(
      error.message ==
      "stages 0 and 1 do not compute the same: the latter hands on this cosine f32[4], the former "
      "another value");
  CHECK(error.line == 12);
  REQUIRE(error.notes.size() == 1);
  CHECK(error.notes[0].line == 4);
}

}  // namespace
}  // namespace gshard::pipeline
