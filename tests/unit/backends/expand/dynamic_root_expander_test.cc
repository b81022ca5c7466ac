// Broadcasts from a root that a value tells.
#include "core/transforms/expand/dynamic_root_expander.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

TEST_CASE("a broadcast has the bits of the member that the root names", "[cpu]") {
  // Devices 1, 3 and 0 are a group, device 2 is in none. Zero times minus one keeps its sign.
  const std::string text =
      "HloModule m, num_partitions=4\nENTRY e { id = u32[] partition-id()\n f = f32[] convert(id)\n"
      " m = f32[] constant(-1)\n x = f32[] multiply(f, m)\n i = s8[] convert(id)\n y = s8[2] "
      "broadcast(i), dimensions={}\n two = s32[] constant(2)\n b = (f32[], s8[2]) "
      "collective-broadcast(x, y, two), channel_id=1, replica_groups={{1,3,0}}, "
      "has_dynamic_root=true\n z = f32[] get-tuple-element(b), index=0\n w = s8[2] "
      "get-tuple-element(b), index=1\n bits = u32[] bitcast-convert(z)\n ROOT r = (u32[], s8[2]) "
      "tuple(bits, w)\n}\n";
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  REQUIRE(ExpandDynamicRoots(**module, {1, 4}));
  TestMesh mesh(PrintModule(**module));
  mesh.Run();
  CHECK(mesh.Result<uint32_t>(0) ==
        std::vector<uint32_t>{0x80000000u, 0x80000000u, 0, 0x80000000u});
  CHECK(mesh.Result<int8_t>(1) == std::vector<int8_t>(8, 0));
}

TEST_CASE("roots may differ from group to group", "[cpu]") {
  const std::string text =
      "HloModule m, num_partitions=4\nENTRY e { id = u32[] partition-id()\n f = f32[] convert(id)\n"
      " i = s32[] convert(id)\n one = s32[] constant(1)\n root = s32[] shift-right-logical(i, "
      "one)\n"
      " ROOT b = f32[] collective-broadcast(f, root), channel_id=1, replica_groups={{0,1},{2,3}}, "
      "has_dynamic_root=true\n}\n";
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  REQUIRE(ExpandDynamicRoots(**module, {1, 4}));
  TestMesh mesh(PrintModule(**module));
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{0, 0, 3, 3});
}

}  // namespace
}  // namespace gshard::cpu
