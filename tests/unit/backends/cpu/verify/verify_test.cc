#include "backends/cpu/verify/verify.h"

#include <cmath>
#include <limits>

#include "backends/cpu/run_report.h"
#include "backends/cpu/verify/element_error.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

// Four devices hold tiles of 2 of x + c; what device 2 adds is wrong by `error`.
std::string Skewed(float error) {
  return "HloModule m, num_partitions=4, "
         "frontend_attributes={gshard.output_shardings=\"{devices=[4]<=[4]}\"}\n"
         "ENTRY e { x = f32[2] parameter(0), sharding={devices=[4]<=[4]}\n"
         " t = f32[4] constant({0,0," +
         std::to_string(error) +
         ",0})\n p = u32[] partition-id()\n"
         " o = f32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}\n"
         " b = f32[2] broadcast(o), dimensions={0}\n ROOT r = f32[2] add(x, b) }\n";
}

OutputArray Whole(Floats values) {
  return {DType::kF32, {static_cast<int64_t>(values.size())}, BytesOf(values)};
}

TEST_CASE("a wrong element on one device is found, with its place", "[cpu]") {
  const Floats x{1, 2, 3, 4, 5, 6, 7, 8};
  TestMesh good(Skewed(0), {F32({8}, x)});
  VerifyResult result = VerifyOutputs(good.Run(), {Whole(x)}, good.module());
  CHECK(result.ok);
  CHECK(result.max_abs_error == 0);
  CHECK(result.compared == 1);
  TestMesh bad(Skewed(0.25f), {F32({8}, x)});
  result = VerifyOutputs(bad.Run(), {Whole(x)}, bad.module());
  CHECK_FALSE(result.ok);
  CHECK(result.max_abs_error == 0.25);
  CHECK(result.max_rel_error == 0.25 / 8);
  CHECK(result.worst == "o0");
  CHECK(result.mismatch.index == std::vector<int64_t>{4});
  CHECK(result.mismatch.device == 2);
  CHECK(result.mismatch.value == "5.25");
  CHECK(result.mismatch.expected == "5");
  CHECK(result.mismatch.differences == 2);
  CHECK(result.mismatch.elements == 8);
  CHECK(result.mismatch.ulps == 0.25 / std::ldexp(1.0, 2 - 23));
  // Within 1e-4 of the largest magnitude.
  TestMesh near(Skewed(0.0005f), {F32({8}, x)});
  CHECK(VerifyOutputs(near.Run(), {Whole(x)}, near.module()).ok);
  TestMesh far(Skewed(0.001f), {F32({8}, x)});
  CHECK_FALSE(VerifyOutputs(far.Run(), {Whole(x)}, far.module()).ok);
}

TEST_CASE("every device is looked at, not just one a tile", "[cpu]") {
  // Tile 0 on devices 0 and 2, tile 1 on 1 and 3; device 3 holds a wrong copy.
  const std::string text =
      "HloModule m, num_partitions=4, "
      "frontend_attributes={gshard.output_shardings=\"{devices=[2,2]<=[2,2]T(1,0) "
      "last_tile_dim_replicate}\"}\n"
      "ENTRY e { t = f32[4] constant({10,20,10,21})\n p = u32[] partition-id()\n"
      " o = f32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}\n"
      " ROOT r = f32[2] broadcast(o), dimensions={0} }\n";
  TestMesh mesh(text);
  MeshRun& run = mesh.Run();
  CHECK(mesh.Result<float>() == Floats{10, 10, 20, 20});
  const VerifyResult result = VerifyOutputs(run, {Whole({10, 10, 20, 20})}, mesh.module());
  CHECK_FALSE(result.ok);
  CHECK(result.mismatch.device == 3);
}

TEST_CASE("NaN equals NaN, infinities themselves, and nothing else", "[cpu]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  TestMesh mesh("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] negate(x) }\n",
                {F32({4}, {nan, -inf, inf, 1})});
  MeshRun& run = mesh.Run();
  CHECK(VerifyOutputs(run, {Whole({nan, inf, -inf, -1})}, mesh.module()).ok);
  CHECK_FALSE(VerifyOutputs(run, {Whole({0, inf, -inf, -1})}, mesh.module()).ok);
  CHECK_FALSE(VerifyOutputs(run, {Whole({nan, -inf, -inf, -1})}, mesh.module()).ok);
  const VerifyResult result = VerifyOutputs(run, {Whole({nan, inf, 3, -1})}, mesh.module());
  CHECK_FALSE(result.ok);
  RunReport report;
  report.verify = result;
  CHECK(ToJson(report).find("\"max_abs_error\": \"inf\"") != std::string::npos);
}

TEST_CASE("a complex number is NaN where one of its parts is", "[cpu]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Floats numbers{kNan, 0, 1, kNan, 1, 2};
  const std::vector<std::byte> bytes = BytesOf(numbers);
  const auto error = [&](int64_t i, int64_t j) {
    return ElementError(DType::kC64, bytes.data(), i, bytes.data(), j);
  };
  CHECK(error(0, 1) == 0);
  CHECK(std::isinf(error(0, 2)));
  CHECK(std::isinf(error(2, 1)));
}

TEST_CASE("tolerances by type", "[cpu]") {
  CHECK(ToleranceOf(DType::kF32) == 1e-4);
  CHECK(ToleranceOf(DType::kBF16) == 2e-2);
  CHECK(ToleranceOf(DType::kF16) == 2e-2);
  CHECK(ToleranceOf(DType::kF64) == 1e-9);
  CHECK(ToleranceOf(DType::kS32) == 0);
  CHECK(ToleranceOf(DType::kPred) == 0);
}

TEST_CASE("the median of an even number of steps lies between the middle ones", "[cpu]") {
  RunReport report;
  CHECK(report.MedianStepTime() == 0);
  report.step_times_s = {4, 1, 3};
  CHECK(report.MedianStepTime() == 3);
  report.step_times_s = {4, 1, 3, 2};
  CHECK(report.MedianStepTime() == 2.5);
}

}  // namespace
}  // namespace gshard::cpu
