// Sends and receives as collective-permutes.
#include "core/transforms/expand/channel_resolver.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

std::string ParsedText(const std::string& text, Expected<bool> (*pass)(Module&)) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  const auto done = pass(**module);
  INFO((done ? "" : Render(done.error())));
  REQUIRE(done);
  REQUIRE(VerifyModule(**module));
  return PrintModule(**module);
}

std::string Shift(const std::string& send_attributes) {
  return "HloModule m, num_partitions=4\nENTRY e { id = u32[] partition-id()\n f = f32[] "
         "convert(id)\n x = f32[2] broadcast(f), dimensions={}\n k = token[] after-all()\n"
         " r = (f32[2], u32[], token[]) recv(k), channel_id=5\n"
         " s = (f32[2], u32[], token[]) send(x, k), channel_id=5" +
         send_attributes +
         "\n d = (f32[2], token[]) recv-done(r), channel_id=5\n y = f32[2] "
         "get-tuple-element(d), index=0\n q = token[] send-done(s), channel_id=5\n ROOT o = f32[2] "
         "add(y, x) }\n";
}

TEST_CASE("a send and its recv move data along their pairs", "[cpu]") {
  const std::string text = ParsedText(
      Shift(", frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,3}}}"),
      ResolveChannels);
  TestMesh mesh(text);
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{0, 0, 1, 1, 3, 3, 5, 5});
}

TEST_CASE("devices of a channel may be told by shardings", "[cpu]") {
  const std::string text = ParsedText(
      "HloModule m, num_partitions=2\nENTRY e { id = u32[] partition-id()\n x = f32[] "
      "convert(id)\n k = token[] after-all()\n s = (f32[], u32[], token[]) send(x, k), "
      "channel_id=5, sharding={maximal device=1}\n r = (f32[], u32[], token[]) recv(k), "
      "channel_id=5, sharding={maximal device=0}\n d = (f32[], token[]) recv-done(r), "
      "channel_id=5, sharding={maximal device=0}\n q = token[] send-done(s), channel_id=5, "
      "sharding={maximal device=1}\n ROOT y = f32[] get-tuple-element(d), index=0 }\n",
      ResolveChannels);
  TestMesh mesh(text);
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{1, 0});
}

TEST_CASE("what a recv waits for may come around a loop", "[cpu]") {
  // Each turn adds what was sent a turn before, and sends on to the next of three in a ring.
  const std::string pairs =
      "channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,0}}}";
  const std::string carried = "(s32[], f32[], (f32[], u32[], token[]))";
  const std::string text = ParsedText(
      "HloModule m, num_partitions=3\ncond { p = " + carried +
          " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(2)\n ROOT "
          "go = pred[] compare(i, n), direction=LT }\nbody { p = " +
          carried +
          " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n sum = f32[] "
          "get-tuple-element(p), index=1\n before = (f32[], u32[], token[]) get-tuple-element(p), "
          "index=2\n done = (f32[], token[]) recv-done(before), channel_id=1\n x = f32[] "
          "get-tuple-element(done), index=0\n y = f32[] add(sum, x)\n k = token[] after-all()\n r "
          "= (f32[], u32[], token[]) recv(k), " +
          pairs + "\n s = (f32[], u32[], token[]) send(y, k), " + pairs +
          "\n sd = token[] send-done(s), channel_id=1\n one = s32[] constant(1)\n i1 = s32[] "
          "add(i, one)\n ROOT o = " +
          carried +
          " tuple(i1, y, r) }\nENTRY e { id = u32[] partition-id()\n x = f32[] convert(id)\n k = "
          "token[] after-all()\n r = (f32[], u32[], token[]) recv(k), " +
          pairs + "\n s = (f32[], u32[], token[]) send(x, k), " + pairs +
          "\n sd = token[] send-done(s), channel_id=1\n z = s32[] constant(0)\n init = " + carried +
          " tuple(z, x, r)\n w = " + carried +
          " while(init), condition=cond, body=body\n ROOT sum = f32[] get-tuple-element(w), "
          "index=1 "
          "}\n",
      ResolveChannels);
  TestMesh mesh(text);
  mesh.Run();
  // {0,1,2}, then + {2,0,1}, then + {3,2,1}.
  CHECK(mesh.Result<float>() == Floats{5, 3, 4});
}

}  // namespace
}  // namespace gshard::cpu
