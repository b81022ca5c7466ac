#include "core/transforms/annotations/remesh.h"

#include <catch2/catch.hpp>

#include "ir/sharding_text.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

using Axes = std::vector<MeshAxis>;

TEST_CASE("Axes are found by name, others keep their sizes, or all are renamed in order",
          "[mesh]") {
  const Axes module = {{"stage", 2}, {"data", 4}, {"model", 8}};
  CHECK(*MeshAfterRenaming(module, {{"data", 16}}) ==
        Axes{{"stage", 2}, {"data", 16}, {"model", 8}});
  CHECK(*MeshAfterRenaming(module, {{"model", 2}, {"data", 2}, {"stage", 2}}) ==
        Axes{{"model", 2}, {"data", 2}, {"stage", 2}});
  CHECK(*MeshAfterRenaming(module, {{"data", 2}, {"extra", 3}}) ==
        Axes{{"stage", 2}, {"data", 2}, {"model", 8}, {"extra", 3}});
  CHECK(*MeshAfterRenaming(module, {{"x", 2}, {"y", 2}, {"z", 2}}) ==
        Axes{{"x", 2}, {"y", 2}, {"z", 2}});
  CHECK(*MeshAfterRenaming({}, {{"x", 2}}) == Axes{{"x", 2}});
  CHECK(MeshAfterRenaming(module, {{"x", 2}, {"y", 2}}).error().code == "E-MESH-001");
}

std::string ShardingAfter(const char* header, const char* sharding, const Axes& axes,
                          const std::vector<AnnotationRule>& rules = {}) {
  auto module = Parsed(std::string("HloModule m") + header +
                       "\nENTRY e {\n  ROOT x = f32[64,64] parameter(0)" + sharding + "\n}\n");
  if (auto done = Remesh(*module, axes, rules); !done) return done.error().code;
  CHECK(module->DeviceCount() == [&] {
    int64_t devices = 1;
    for (const MeshAxis& axis : axes) devices *= axis.size;
    return devices;
  }());
  return ToString(Named(*module, "x")->sharding(), {.tiles = true});
}

TEST_CASE("A program moves to another mesh by the names of its axes", "[mesh]") {
  const char* pod = ", num_partitions=8, meshes={pod=['data'=2,'model'=4]}";
  CHECK(ShardingAfter(pod, ", sharding={@pod, [{'data'}, {}]}", {{"data", 4}, {"model", 4}}) ==
        "{devices=[4,1,4]<=[16] last_tile_dim_replicate}");
  // Shardy's attributes count.
  CHECK(ShardingAfter(
            ", num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = "
            "#sdy.mesh<[\"a\"=2, \"b\"=4]>}}",
            ", frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [{\\\"b\\\"}, "
            "{}]>\"}",
            {{"a", 2}, {"b", 2}}) == "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  // No names: axis0 and axis1 by their order.
  CHECK(ShardingAfter(", num_partitions=8",
                      ", sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                      {{"d", 2}, {"m", 2}}) ==
        "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  // Axes of size 1 that are not named go.
  CHECK(ShardingAfter(", num_partitions=8, meshes={pod=['one'=1,'data'=8,'uno'=1]}",
                      ", sharding={@pod, [{'one', 'data'}, {'uno'}]}",
                      {{"data", 4}}) == "{devices=[4,1]<=[4]}");
  // Rules come on top.
  CHECK(ShardingAfter(pod, ", sharding={@pod, [{'data'}, {}]}", {{"data", 4}, {"model", 2}},
                      {{"x", "_,model", "--shard"}}) ==
        "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}");
  CHECK(ShardingAfter("", "", {{"a", 2}}, {{"x", "a,_", "--shard"}}) == "{devices=[2,1]<=[2]}");
  CHECK(ShardingAfter("", "", {{"a", 2}}) == "E-MESH-002");
}

}  // namespace
}  // namespace gshard
