// Arrays of sizes known at run time: only the part that counts is summed, multiplied, sorted.
#include "core/transforms/expand/dynamic_padder.h"

#include <cmath>

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

constexpr std::string_view kComputations =
    "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
    "falling { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), "
    "direction=GT }\n";

Expected<std::unique_ptr<Module>> Expand(const std::string& body) {
  auto module = ParseModule(SourceText::FromString(
      "test.hlo", std::string(kComputations) + "ENTRY e {\n" + body + "}\n"));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  if (Expected<bool> done = PadDynamicSizes(**module); !done) return Fail(done.error());
  return std::move(*module);
}

// `d` is f32[<=4] with the first n of {5, -7, 2, 100}.
template <typename T = float>
std::vector<T> ResultOf(const std::string& body, int32_t n) {
  auto module = Expand(
      " x = f32[4] parameter(0)\n n = s32[] parameter(1)\n zero = f32[] constant(0)\n d = f32[<=4] "
      "set-dimension-size(x, n), dimensions={0}\n" +
      body);
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  TestMesh mesh(PrintModule(**module), {F32({4}, {5, -7, 2, 100}), S32({}, {n})});
  mesh.Run();
  return mesh.Result<T>();
}

TEST_CASE("what counts is returned, the rest is zero", "[cpu]") {
  const std::string body = " ROOT r = f32[<=4] add(d, d)\n";
  CHECK(ResultOf(body, 0) == Floats{0, 0, 0, 0});
  CHECK(ResultOf(body, 3) == Floats{10, -14, 4, 0});
  CHECK(ResultOf(body, 4) == Floats{10, -14, 4, 200});
  CHECK(ResultOf(body, 9) == Floats{10, -14, 4, 200});  // more than there are: all
}

TEST_CASE("reductions over a run-time size", "[cpu]") {
  // The initial value counts once.
  CHECK(ResultOf(" one = f32[] constant(1)\n ROOT r = f32[] reduce(d, one), dimensions={0}, "
                 "to_apply=add\n",
                 3) == Floats{1});
  CHECK(ResultOf(" low = f32[] constant(-inf)\n ROOT r = f32[] reduce(d, low), dimensions={0}, "
                 "to_apply=largest\n",
                 3) == Floats{5});
}

TEST_CASE("products over a run-time size, whose rest may be NaN", "[cpu]") {
  CHECK(ResultOf(" h = f32[] constant(50)\n hs = f32[4] broadcast(h), dimensions={}\n left = "
                 "f32[4] subtract(hs, x)\n root = f32[4] sqrt(left)\n y = f32[<=4] "
                 "set-dimension-size(root, n), dimensions={0}\n ROOT r = f32[] dot(y, d), "
                 "lhs_contracting_dims={0}, rhs_contracting_dims={0}\n",
                 1) == Floats{5 * std::sqrt(45.0f)});
}

TEST_CASE("sizes are values", "[cpu]") {
  CHECK(
      ResultOf<int32_t>(" c = f32[<=8] concatenate(d, x), dimensions={0}\n s = f32[<=6] slice(c), "
                        "slice={[1:7]}\n ROOT g = s32[] get-dimension-size(s), dimensions={0}\n",
                        2) == std::vector<int32_t>{5});
  CHECK(ResultOf<int32_t>(" four = s32[] constant(4)\n w = f32[4] set-dimension-size(d, four), "
                          "dimensions={0}\n ROOT g = s32[] get-dimension-size(w), dimensions={0}\n",
                          2) == std::vector<int32_t>{4});
}

TEST_CASE("parts are packed, sorted and padded without their rests", "[cpu]") {
  CHECK(ResultOf(" ROOT c = f32[<=12] concatenate(d, x, d), dimensions={0}\n", 1) ==
        Floats{5, 5, -7, 2, 100, 5, 0, 0, 0, 0, 0, 0});
  CHECK(ResultOf(" ROOT s = f32[<=4] sort(d), dimensions={0}, to_apply=falling\n", 3) ==
        Floats{5, 2, -7, 0});
  CHECK(ResultOf(" one = f32[] constant(1)\n ROOT p = f32[<=7] pad(d, one), padding=1_2\n", 2) ==
        Floats{1, 5, -7, 1, 1, 0, 0});
}

TEST_CASE("reshapes keep a dim of run-time size", "[cpu]") {
  CHECK(ResultOf(" b = f32[<=4,2] broadcast(d), dimensions={0}\n r = f32[<=4,2,1] reshape(b)\n t = "
                 "f32[2,1,<=4] transpose(r), dimensions={1,2,0}\n ROOT s = f32[2,1] reduce(t, "
                 "zero), dimensions={2}, to_apply=add\n",
                 2) == Floats{-2, -2});
  CHECK(ResultOf(" ROOT r = f32[<=4] dynamic-reshape(x, n)\n", 2) == Floats{5, -7, 0, 0});
}

TEST_CASE("what nothing defines on a part is told where it is", "[cpu]") {
  const auto module = Expand(
      " x = f32[4] parameter(0)\n n = s32[] parameter(1)\n d = f32[<=4] set-dimension-size(x, n), "
      "dimensions={0}\n ROOT q = f32[<=4] reverse(d), dimensions={0}\n");
  REQUIRE_FALSE(module);
  CHECK(module.error().code == "E-RUN-DYNAMIC");
  CHECK(module.error().message ==
        "an array whose size is known only at run time is an operand at reverse q");
}

}  // namespace
}  // namespace gshard::cpu
