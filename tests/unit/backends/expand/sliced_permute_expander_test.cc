// Permutes that move slices: what is sent, where it lands, and what the others keep.
#include "core/transforms/expand/sliced_permute_expander.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

// x on device d: 10 d + {0, 1, 2, 3}; y: five times -1.
std::string Permutes(const std::string& permutes) {
  return "HloModule m, num_partitions=3\nENTRY e { id = u32[] partition-id()\n d = s32[] "
         "convert(id)\n f = f32[] convert(id)\n ten = f32[] constant(10)\n tens = f32[] "
         "multiply(f, ten)\n b = f32[4] broadcast(tens), dimensions={}\n i = f32[4] iota(), "
         "iota_dimension=0\n x = f32[4] add(b, i)\n m = f32[] constant(-1)\n y = f32[5] "
         "broadcast(m), dimensions={}\n one = s32[] constant(1)\n three = s32[] constant(3)\n"
         " at1 = (s32[]) tuple(one)\n at3 = (s32[]) tuple(three)\n atd = (s32[]) tuple(d)\n" +
         permutes + " }\n";
}

struct Outcome {
  std::unique_ptr<Module> module;
  Expected<bool> done;
};
Outcome Expand(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  Expected<bool> done = ExpandSlicedPermutes(**module);
  return {std::move(*module), std::move(done)};
}

Floats ResultOf(const std::string& permutes) {
  const Outcome outcome = Expand(Permutes(permutes));
  INFO((outcome.done ? "" : Render(outcome.done.error())));
  REQUIRE(outcome.done);
  TestMesh mesh(PrintModule(*outcome.module));
  mesh.Run();
  return mesh.Result<float>();
}

TEST_CASE("a slice of the source lands in the target's output", "[cpu]") {
  // Device 0 is nobody's target. Each target writes at its own place.
  CHECK(ResultOf(" ROOT r = f32[5] collective-permute(x, y, at1, atd), channel_id=1, "
                 "source_target_pairs={{0,1},{1,2}}, slice_sizes={{2}}") ==
        Floats{-1, -1, -1, -1, -1, /**/ -1, 1, 2, -1, -1, /**/ -1, -1, 11, 12, -1});
}

TEST_CASE("several slices, asynchronously", "[cpu]") {
  CHECK(ResultOf(" from = ((s32[]), (s32[])) tuple(at1, at3)\n to = ((s32[]), (s32[])) "
                 "tuple(atd, at3)\n s = (f32[4], f32[5], u32[], u32[]) "
                 "collective-permute-start(x, y, from, to), channel_id=1, "
                 "source_target_pairs={{0,1},{1,2},{2,0}}, slice_sizes={{2},{1}}\n ROOT r = f32[5] "
                 "collective-permute-done(s)") ==
        Floats{21, 22, -1, 23, -1, /**/ -1, 1, 2, 3, -1, /**/ -1, -1, 11, 13, -1});
}

TEST_CASE("slices of several arrays", "[cpu]") {
  CHECK(ResultOf(" in = (f32[4], f32[4]) tuple(x, x)\n out = (f32[5], f32[5]) tuple(y, y)\n from = "
                 "((s32[]), (s32[])) tuple(at1, at3)\n to = ((s32[]), (s32[])) tuple(at3, at1)\n "
                 "p = (f32[5], f32[5]) collective-permute(in, out, from, to), channel_id=1, "
                 "source_target_pairs={{0,1}}, slice_sizes={{2},{1}}\n a = f32[5] "
                 "get-tuple-element(p), index=0\n c = f32[5] get-tuple-element(p), index=1\n ROOT "
                 "r = f32[5] subtract(a, c)") ==
        Floats{0, 0, 0, 0, 0, /**/ 0, -4, 0, 2, 3, /**/ 0, 0, 0, 0, 0});
}

TEST_CASE("slices that do not fit are told where they are", "[cpu]") {
  const Outcome outcome =
      Expand(Permutes(" ROOT r = f32[5] collective-permute(x, y, at1, atd), channel_id=1, "
                      "source_target_pairs={{0,1}}, slice_sizes={{5}}"));
  REQUIRE_FALSE(outcome.done);
  CHECK(outcome.done.error().code == "E-RUN-GROUPS");
  CHECK(outcome.done.error().message ==
        "slice_sizes={{5}} do not fit f32[4], f32[5] at (s32[]) and (s32[])");
}

}  // namespace
}  // namespace gshard::cpu
