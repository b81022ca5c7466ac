// Products that are finished panel by panel, against sums of small whole numbers, which floats hold
// exactly.
#include "backends/cpu/elementwise/epilogue_kernel.h"

#include <algorithm>

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

Floats Small(int64_t count, int modulus) {
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(i * 5 + i / 7) % modulus - modulus / 2);
  }
  return values;
}

TEST_CASE("bias, activation, scale and conversion of a product in panels", "[cpu][fusion]") {
  // Large enough for several panels; b is 24 x 512, so the last panel is cut short.
  constexpr int64_t kRows = 211, kDepth = 24, kColumns = 512;
  const Floats a = Small(kRows * kDepth, 7), b = Small(kDepth * kColumns, 5);
  const Floats bias = Small(kColumns, 9), old = Small(kRows * kColumns, 11);
  Floats sums(static_cast<size_t>(kRows * kColumns));
  std::vector<int32_t> whole(sums.size());
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      float sum = bias[j];
      for (size_t k = 0; k < kDepth; ++k) sum += a[i * kDepth + k] * b[k * kColumns + j];
      const size_t at = i * kColumns + j;
      sums[at] = std::max(sum, 0.0f) + old[at];
      whole[at] = static_cast<int32_t>(std::max(sum, 0.0f));
    }
  }
  for (int threads : {1, 2}) {
    TestMesh mesh(
        "HloModule m\nENTRY e {\n a = f32[211,24] parameter(0)\n b = f32[24,512] parameter(1)\n"
        " c = f32[512] parameter(2)\n o = f32[211,512] parameter(3)\n z = f32[] constant(0)\n"
        " d = f32[211,512] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " w = f32[211,512] broadcast(c), dimensions={1}\n s = f32[211,512] add(d, w)\n"
        " y = f32[211,512] broadcast(z), dimensions={}\n r = f32[211,512] maximum(s, y)\n"
        " t = f32[211,512] add(r, o)\n i = s32[211,512] convert(r)\n"
        " ROOT x = (f32[211,512], s32[211,512]) tuple(t, i)\n}\n",
        {F32({kRows, kDepth}, a), F32({kDepth, kColumns}, b), F32({kColumns}, bias),
         F32({kRows, kColumns}, old)});
    mesh.options.threads = threads;
    mesh.Run();
    CHECK(mesh.Result<float>(0) == sums);
    CHECK(mesh.Result<int32_t>(1) == whole);
    // The product, the sum with the bias and the activation have no buffers: two results are held.
    constexpr int64_t kBytes = 4 * kRows * kColumns;
    const auto fused = mesh.PlanFootprint(true), apart = mesh.PlanFootprint(false);
    CHECK(fused.transient_bytes < 2 * kBytes + kBytes / 2);
    CHECK(apart.transient_bytes >= 3 * kBytes);
    CHECK(fused.bytes + 2 * kBytes <= apart.bytes);
    CHECK(fused.calls < apart.calls);
    for (const char* name : {"d", "s", "r", "w", "y"}) CHECK_FALSE(fused.Stores(name));
    CHECK(fused.Stores("t"));
    CHECK(fused.Stores("i"));
  }
}

TEST_CASE("a product that others read as well stays", "[cpu][fusion]") {
  constexpr int64_t kRows = 300, kColumns = 128;
  const Floats a = Small(kRows * 4, 7), b = Small(4 * kColumns, 5);
  TestMesh mesh(
      "HloModule m\nENTRY e {\n a = f32[300,4] parameter(0)\n b = f32[4,128] parameter(1)\n"
      " d = f32[300,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " s = f32[300,128] add(d, d)\n t = f32[128,300] transpose(d), dimensions={1,0}\n"
      " ROOT x = (f32[300,128], f32[128,300]) tuple(s, t)\n}\n",
      {F32({kRows, 4}, a), F32({4, kColumns}, b)});
  mesh.Run();
  constexpr int64_t kBytes = 4 * kRows * kColumns;
  CHECK(mesh.PlanFootprint(true).transient_bytes >= 3 * kBytes);  // the product and both results
  mesh.Run();
  const Floats doubled = mesh.Result<float>(0), transposed = mesh.Result<float>(1);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += a[i * 4 + k] * b[k * kColumns + j];
      REQUIRE(doubled[i * kColumns + j] == 2 * sum);
      REQUIRE(transposed[j * kRows + i] == sum);
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
