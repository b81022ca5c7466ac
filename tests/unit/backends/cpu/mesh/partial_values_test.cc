// Parts of values: what each member gets, and that they add up.
#include "backends/cpu/mesh/partial_values.h"

#include <complex>

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

template <typename T>
std::vector<T> Part(DType dtype, ReductionKind reduction, int64_t place, std::vector<T> values) {
  MakePartial(dtype, reduction, place, static_cast<int64_t>(values.size()),
              reinterpret_cast<std::byte*>(values.data()));
  return values;
}

template <typename T>
void CheckAddsUp(DType dtype, ReductionKind reduction, const std::vector<T>& values) {
  std::vector<std::vector<T>> parts;
  std::vector<const std::byte*> pointers;
  for (int64_t place = 0; place < 5; ++place) {
    parts.push_back(Part(dtype, reduction, place, values));
  }
  for (const std::vector<T>& part : parts) {
    pointers.push_back(reinterpret_cast<const std::byte*>(part.data()));
  }
  std::vector<T> sum(values.size());
  CombineParts(dtype, reduction, pointers, static_cast<int64_t>(values.size()),
               reinterpret_cast<std::byte*>(sum.data()));
  CHECK(sum == values);
}

TEST_CASE("parts add up to the value", "[cpu]") {
  for (const auto reduction : {ReductionKind::kSum, ReductionKind::kMax, ReductionKind::kMin}) {
    CheckAddsUp<float>(DType::kF32, reduction, {1, -2.5f, 3e30f, 0});
    CheckAddsUp<std::complex<float>>(DType::kC64, reduction, {{1, -2.5f}, {-3, 0.5f}});
    CheckAddsUp<double>(DType::kF64, reduction, {1, -2.5, 1e300});
    CheckAddsUp<int32_t>(DType::kS32, reduction, {7, -7, INT32_MIN, INT32_MAX});
    CheckAddsUp<uint8_t>(DType::kU8, reduction, {0, 1, 255});
    CheckAddsUp<uint8_t>(DType::kPred, reduction, {0, 1});
    CheckAddsUp<uint16_t>(DType::kBF16, reduction, {0x3f80, 0xc000});
    CheckAddsUp<uint8_t>(DType::kF8E4M3FN, reduction, {0x08, 0x01, 0x7e});
  }
}

TEST_CASE("two members hold halves of a sum, the others nothing", "[cpu]") {
  CHECK(Part<float>(DType::kF32, ReductionKind::kSum, 0, {3}) == std::vector<float>{1.5f});
  CHECK(Part<float>(DType::kF32, ReductionKind::kSum, 1, {3}) == std::vector<float>{1.5f});
  CHECK(Part<float>(DType::kF32, ReductionKind::kSum, 2, {3}) == std::vector<float>{0});
  CHECK(Part<int32_t>(DType::kS32, ReductionKind::kSum, 0, {7}) == std::vector<int32_t>{4});
  CHECK(Part<int32_t>(DType::kS32, ReductionKind::kSum, 1, {7}) == std::vector<int32_t>{3});
}

// The halves come in, the identity adds nothing, and what goes out is put together.
TEST_CASE("partial parameters and results of a run", "[cpu]") {
  const std::string text =
      "HloModule m, num_partitions=4, frontend_attributes={gshard.num_partitions=\"4\","
      "gshard.output_shardings=\"{RESULT}\"}\nENTRY e { x = f32[2] parameter(0), "
      "sharding={devices=[2,2]<=[4] last_tile_dims={unreduced}}\n ROOT y = f32[2] negate(x) }\n";
  auto with_result = [&](const std::string& result) {
    std::string copy = text;
    return copy.replace(copy.find("{RESULT}"), 8, result);
  };
  TestMesh partial(with_result("{devices=[2,2]<=[4] last_tile_dims={unreduced}}"),
                   {F32({4}, {1, 2, 3, 4})});
  MeshRun& run = partial.Run();
  CHECK(partial.Result<float>() == std::vector<float>{-1, -2, -3, -4});
  const auto instances = run.Instances(0);
  REQUIRE(instances.size() == 2);
  CHECK(instances[1].device == 2);
  CHECK(instances[1].start == std::vector<int64_t>{2});
  TestMesh raw(with_result("{manual}"), {F32({4}, {1, 2, 3, 4})});
  raw.Run();
  CHECK(raw.Result<float>() == std::vector<float>{-0.5f, -1, -0.5f, -1, -1.5f, -2, -1.5f, -2});
}

TEST_CASE("a value that is partial over all devices", "[cpu]") {
  TestMesh mesh(
      "HloModule m, num_partitions=3, frontend_attributes={gshard.num_partitions=\"3\","
      "gshard.output_shardings=\"{unreduced}\"}\nENTRY e { x = s32[2] parameter(0), "
      "sharding={unreduced}\n ROOT y = s32[2] negate(x) }\n",
      {S32({2}, {5, -8})});
  MeshRun& run = mesh.Run();
  CHECK(mesh.Result<int32_t>() == std::vector<int32_t>{-5, 8});
  CHECK(run.Instances(0).size() == 1);
}

}  // namespace
}  // namespace gshard::cpu
