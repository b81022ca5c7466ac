// Reductions that make their own elements, against sums of small whole numbers, which floats hold
// exactly.
#include "backends/cpu/elementwise/produced_reduce.h"

#include <algorithm>

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

Floats Small(size_t count, size_t modulus) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 5 + i / 7) % modulus) - static_cast<float>(modulus / 2);
  }
  return values;
}

constexpr size_t kRows = 333, kLength = 200;  // 266 kB: several tiles, the last one cut short
constexpr int64_t kArrayBytes = int64_t{4} * kRows * kLength, kRowsBytes = int64_t{4} * kRows;
constexpr int64_t kSmall = 4096;  // alignment, scalars
constexpr const char* kBodies =
    "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
    " ROOT z = f32[] add(x, y) }\n"
    "first { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n"
    " j = s32[] parameter(3)\n g = pred[] compare(a, b), direction=GT\n"
    " e = pred[] compare(a, b), direction=EQ\n l = pred[] compare(i, j), direction=LT\n"
    " n = pred[] and(e, l)\n k = pred[] or(g, n)\n v = f32[] select(k, a, b)\n"
    " w = s32[] select(k, i, j)\n ROOT t = (f32[], s32[]) tuple(v, w) }\n";

TEST_CASE("the sum of products that are never stored", "[cpu][fusion]") {
  const Floats a = Small(kRows * kLength, 7), b = Small(kRows * kLength, 11);
  const Floats c = Small(kRows, 5);
  Floats expected(kRows, 3), products(kRows * kLength);
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kLength; ++j) {
      const size_t at = i * kLength + j;
      expected[i] += (a[at] - c[i]) * b[at];
      products[at] = a[at] - c[i];
    }
  }
  for (int threads : {1, 2}) {
    TestMesh mesh(std::string(kBodies) +
                      "ENTRY e {\n a = f32[333,200] parameter(0)\n b = f32[333,200] parameter(1)\n"
                      " c = f32[333] parameter(2)\n z = f32[] constant(3)\n"
                      " w = f32[333,200] broadcast(c), dimensions={0}\n"
                      " d = f32[333,200] subtract(a, w)\n m = f32[333,200] multiply(d, b)\n"
                      " r = f32[333] reduce(m, z), dimensions={1}, to_apply=sum\n"
                      " ROOT t = (f32[333], f32[333,200]) tuple(r, d)\n}\n",
                  {F32({kRows, kLength}, a), F32({kRows, kLength}, b), F32({kRows}, c)});
    mesh.options.threads = threads;
    mesh.Run();
    CHECK(mesh.Result<float>(0) == expected);
    CHECK(mesh.Result<float>(1) == products);
    // Neither the products nor the broadcast have a buffer: what is held is the two results.
    const auto fused = mesh.PlanFootprint(true), apart = mesh.PlanFootprint(false);
    CHECK(fused.transient_bytes < kArrayBytes + kRowsBytes + kSmall);
    CHECK(apart.transient_bytes >= 2 * kArrayBytes);
    CHECK(fused.bytes + 2 * kArrayBytes <= apart.bytes);
    CHECK(fused.calls < apart.calls);
    CHECK(fused.Stores("d"));
    CHECK_FALSE(fused.Stores("m"));
  }
}

TEST_CASE("the place of the largest element of what is never stored", "[cpu][fusion]") {
  const Floats a = Small(kRows * kLength, 101), b = Small(kRows * kLength, 13);
  Floats largest(kRows);
  std::vector<int32_t> place(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    largest[i] = -1e9f;
    for (size_t j = 0; j < kLength; ++j) {
      const float value = a[i * kLength + j] + b[i * kLength + j];
      if (value <= largest[i]) continue;
      largest[i] = value;
      place[i] = static_cast<int32_t>(j);
    }
  }
  for (int threads : {1, 2}) {
    TestMesh mesh(std::string(kBodies) +
                      "ENTRY e {\n a = f32[333,200] parameter(0)\n b = f32[333,200] parameter(1)\n"
                      " y = f32[] constant(-inf)\n z = s32[] constant(0)\n"
                      " s = f32[333,200] add(a, b)\n n = s32[200] iota(), iota_dimension=0\n"
                      " i = s32[333,200] broadcast(n), dimensions={1}\n"
                      " ROOT r = (f32[333], s32[333]) reduce(s, i, y, z), dimensions={1}, "
                      "to_apply=first\n}\n",
                  {F32({kRows, kLength}, a), F32({kRows, kLength}, b)});
    mesh.options.threads = threads;
    mesh.Run();
    CHECK(mesh.Result<float>(0) == largest);
    CHECK(mesh.Result<int32_t>(1) == place);
    // Neither the sums nor the places have a buffer.
    const auto fused = mesh.PlanFootprint(true), apart = mesh.PlanFootprint(false);
    CHECK(fused.transient_bytes < 2 * kRowsBytes + kSmall);
    CHECK(apart.transient_bytes >= kArrayBytes);
    CHECK(fused.calls < apart.calls);
    CHECK_FALSE(fused.Stores("s"));
    CHECK_FALSE(fused.Stores("i"));
  }
}

}  // namespace
}  // namespace gshard::cpu
