// Sends and receives as collective-permutes; infeeds and outfeeds as parameters and results.
#include "backends/cpu/transfers.h"

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

std::string ParsedText(const std::string& text, Expected<void> (*pass)(Module&)) {
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
      PairChannels);
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
      PairChannels);
  TestMesh mesh(text);
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{1, 0});
}

TEST_CASE("what the host feeds is a parameter, what it is fed a result", "[cpu]") {
  const std::string text = ParsedText(
      "HloModule m\nENTRY e { x = f32[2] parameter(0)\n k = token[] after-all()\n f = (f32[2], "
      "token[]) infeed(k)\n a = f32[2] get-tuple-element(f), index=0\n t = token[] "
      "get-tuple-element(f), index=1\n s = f32[2] add(a, x)\n q = token[] outfeed(a, t), "
      "outfeed_shape=f32[2]\n ROOT r = f32[2] negate(s) }\n",
      ReplaceHostTransfers);
  TestMesh mesh(text, {F32({2}, {1, 2}), F32({2}, {10, 20})});
  mesh.Run();
  CHECK(mesh.Result<float>(0) == Floats{-11, -22});
  CHECK(mesh.Result<float>(1) == Floats{10, 20});
}

}  // namespace
}  // namespace gshard::cpu
