// Loops of a few trips, written out while planning: results, and what is left to run.
#include "backends/cpu/plan/short_loops.h"

#include <fmt/format.h>

#include <bit>

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

std::vector<uint32_t> Scattered(size_t count) {
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint32_t>(i * 2654435761u + 17);
  return values;
}

TestInput U32(const std::vector<uint32_t>& values) {
  return {DType::kU32, {static_cast<int64_t>(values.size())}, BytesOf(values)};
}

// Rounds of a generator of random bits as JAX writes them: the numbers of bits to rotate by are
// carried, and rotate themselves.
std::string Rounds(int64_t trips) {
  return fmt::format(
      R"(HloModule m
body {{
  s = (s32[], u32[40], u32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = u32[40] get-tuple-element(s), index=1
  r = u32[4] get-tuple-element(s), index=2
  first = u32[1] slice(r), slice={{[0:1]}}
  by = u32[] reshape(first)
  width = u32[] constant(32)
  rest = u32[] subtract(width, by)
  bys = u32[40] broadcast(by), dimensions={{}}
  rests = u32[40] broadcast(rest), dimensions={{}}
  left = u32[40] shift-left(x, bys)
  right = u32[40] shift-right-logical(x, rests)
  rotated = u32[40] or(left, right)
  sum = u32[40] add(x, rotated)
  mixed = u32[40] xor(rotated, sum)
  others = u32[3] slice(r), slice={{[1:4]}}
  turned = u32[4] concatenate(others, first), dimensions={{0}}
  ROOT t = (s32[], u32[40], u32[4]) tuple(next, mixed, turned)
}}
condition {{
  s = (s32[], u32[40], u32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({})
  ROOT c = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = u32[40] parameter(0)
  z = s32[] constant(0)
  r = u32[4] constant({{13, 15, 26, 6}})
  s = (s32[], u32[40], u32[4]) tuple(z, x, r)
  w = (s32[], u32[40], u32[4]) while(s), condition=condition, body=body
  ROOT y = u32[40] get-tuple-element(w), index=1
}}
)",
      trips);
}

TEST_CASE("the rounds of a random generator become one kernel", "[cpu][loops]") {
  const std::vector<uint32_t> x = Scattered(40);
  for (const int64_t trips : {0, 1, 5, 16, 17, 40}) {
    INFO(trips << " trips");
    std::vector<uint32_t> expected = x;
    for (int64_t trip = 0; trip < trips; ++trip) {
      constexpr int kBy[] = {13, 15, 26, 6};
      for (uint32_t& value : expected) {
        const uint32_t rotated = std::rotl(value, kBy[trip % 4]);
        value = rotated ^ (value + rotated);
      }
    }
    TestMesh mesh(Rounds(trips), {U32(x)});
    mesh.Run();
    CHECK(mesh.Result<uint32_t>() == expected);
    // 16 trips are the most that are written out.
    if (trips > 0 && trips <= 16) CHECK(mesh.PlanFootprint(true).calls == 1);
    if (trips > 16) CHECK(mesh.PlanFootprint(true).calls > 1);
  }
}

TEST_CASE("shifts that are a rotation, and others that look like one", "[cpu][loops]") {
  const std::vector<uint32_t> x = Scattered(100);
  std::string text = "HloModule m\nENTRY e {\n x = u32[100] parameter(0)\n";
  std::vector<std::pair<uint32_t, uint32_t>> shifts = {{5, 27}, {31, 1}, {5, 26}, {0, 32},
                                                       {32, 0}, {4, 4},  {16, 16}};
  std::string tuple, types;
  for (size_t i = 0; i < shifts.size(); ++i) {
    text += fmt::format(
        " a{0} = u32[] constant({1})\n as{0} = u32[100] broadcast(a{0}), dimensions={{}}\n"
        " b{0} = u32[] constant({2})\n bs{0} = u32[100] broadcast(b{0}), dimensions={{}}\n"
        " l{0} = u32[100] shift-left(x, as{0})\n r{0} = u32[100] shift-right-logical(x, bs{0})\n"
        " o{0} = u32[100] or({3}{0}, {4}{0})\n",
        i, shifts[i].first, shifts[i].second, i % 2 == 0 ? "l" : "r", i % 2 == 0 ? "r" : "l");
    tuple += fmt::format("{}o{}", i == 0 ? "" : ", ", i);
    types += fmt::format("{}u32[100]", i == 0 ? "" : ", ");
  }
  // Both shifts of the last one are read by others, too.
  text += fmt::format(" k = u32[100] add(l6, r6)\n ROOT t = ({}, u32[100]) tuple({}, k)\n}}\n",
                      types, tuple);
  TestMesh mesh(text, {U32(x)});
  mesh.Run();
  const auto shifted = [](uint32_t value, uint32_t by, bool left) {
    return by >= 32 ? 0 : left ? value << by : value >> by;
  };
  for (size_t i = 0; i < shifts.size(); ++i) {
    INFO("shifts " << shifts[i].first << " and " << shifts[i].second);
    std::vector<uint32_t> expected;
    for (uint32_t value : x) {
      expected.push_back(shifted(value, shifts[i].first, true) |
                         shifted(value, shifts[i].second, false));
    }
    CHECK(mesh.Result<uint32_t>(i) == expected);
  }
  std::vector<uint32_t> sums;
  for (uint32_t value : x) sums.push_back((value << 16) + (value >> 16));
  CHECK(mesh.Result<uint32_t>(shifts.size()) == sums);
}

}  // namespace
}  // namespace gshard::cpu
