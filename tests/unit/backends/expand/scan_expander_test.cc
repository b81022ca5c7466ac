// Scans whose bodies have loops and branches.
#include "core/transforms/expand/scan_expander.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

// Adds columns of x to the carry, or takes them away where `e` is odd.
std::string AddingScan(const std::string& direction) {
  return R"(HloModule m
negated { p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }
same { p = f32[2] parameter(0) ROOT r = f32[2] copy(p) }
step {
  x = f32[2] parameter(0)
  e = s32[] parameter(1)
  sum = f32[2] parameter(2)
  one = s32[] constant(1)
  bit = s32[] and(e, one)
  odd = pred[] compare(bit, one), direction=EQ
  y = f32[2] conditional(odd, x, x), true_computation=negated, false_computation=same
  next = f32[2] add(sum, y)
  ROOT r = (f32[2], f32[2]) tuple(next, next)
}
ENTRY e {
  x = f32[2,3] parameter(0)
  e = s32[1,3] parameter(1)
  es = s32[3] reshape(e)
  rows = f32[3,2] transpose(x), dimensions={1,0}
  zero = f32[] constant(0)
  zeros = f32[2] broadcast(zero), dimensions={}
  ROOT s = (f32[3,2], f32[2]) scan(rows, es, zeros), dimensions={0}, num_carries=1)" +
         direction + R"(, to_apply=step
}
)";
}

std::vector<Floats> Results(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  ExpandScans(**module);
  TestMesh mesh(PrintModule(**module),
                {F32({2, 3}, {1, 10, 100, 2, 20, 200}), S32({1, 3}, {0, 1, 4})});
  CHECK(PrintModule(mesh.module()).find(" scan(") == std::string::npos);
  mesh.Run();
  return {mesh.Result<float>(0), mesh.Result<float>(1)};
}

TEST_CASE("a scan with branches is a loop", "[cpu]") {
  const auto forward = Results(AddingScan(""));
  CHECK(forward[0] == Floats{1, 2, -9, -18, 91, 182});
  CHECK(forward[1] == Floats{91, 182});
  const auto backward = Results(AddingScan(", is_reverse=true"));
  CHECK(backward[0] == Floats{91, 182, 90, 180, 100, 200});
  CHECK(backward[1] == Floats{91, 182});
}

}  // namespace
}  // namespace gshard::cpu
