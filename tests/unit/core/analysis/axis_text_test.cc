#include "core/analysis/axis_text.h"

#include <catch2/catch.hpp>

#include "core/analysis/meshes.h"
#include "ir/module.h"
#include "ir/parser.h"
#include "ir/sharding_text.h"
#include "ir/source_text.h"

namespace gshard {
namespace {

TEST_CASE("Shardings are told by the axes of the module's mesh", "[analysis]") {
  auto module = ParseModule(SourceText::FromString("test.hlo", R"(
HloModule m, num_partitions=16, meshes={pod=['data'=2,'stage'=1,'model'=8]}
ENTRY e { ROOT x = f32[8,8] parameter(0) })"));
  REQUIRE(module);
  const Mesh* mesh = NamedMesh(**module);
  REQUIRE(mesh != nullptr);
  struct Row {
    const char *sharding, *text;
  };
  const Row rows[] = {
      {"{replicated}", "replicated"},
      {"{maximal device=3}", "device 3"},
      {"{manual}", "manual"},
      {"{devices=[2,8]<=[16]}", "[data, model]"},
      {"{devices=[1,2,8]<=[16] last_tile_dim_replicate}", "[_, data]"},
      {"{devices=[1,16]<=[2,8]T(1,0)}", "[_, model+data]"},
      {"{devices=[4,1,4]<=[16] last_tile_dim_replicate}", "[data+model(outer 2), _]"},
      {"{devices=[2,1,8]<=[16] last_tile_dims={unreduced}}", "[data, _] partial over model"},
      {"{devices=[1,1,2,8]<=[16] last_tile_dims={unreduced, replicated}}", "partial over data"},
      {"{devices=[8,1,2]<=[2,8]T(1,0) last_tile_dims={manual}}", "[model, _] manual over data"},
      {"{unreduced}", "partial over data+model"},
  };
  Context& ctx = (*module)->context();
  for (const Row& row : rows) {
    auto sharding = ParseSharding(ctx, row.sharding);
    CAPTURE(row.sharding);
    REQUIRE(sharding);
    CHECK(AxisText(ctx, *sharding, mesh) == row.text);
    CHECK(AxisText(ctx, *sharding, nullptr) == ToString(*sharding));
  }
}

}  // namespace
}  // namespace gshard
