#include "core/transforms/annotations/resize_mesh.h"

#include <array>
#include <catch2/catch.hpp>

#include "core/analysis/meshes.h"
#include "ir/sharding_text.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

const Mesh* MeshOf(Module& module, std::vector<MeshAxis> axes) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return module.context().Intern(Mesh{"mesh", std::move(axes), TileAssignment::Iota(sizes), ""});
}

std::string Resized(const std::string& sharding, std::array<int64_t, 2> sizes,
                    bool swap_axes = false) {
  auto module = Parsed(
      "HloModule m, num_partitions=8, meshes={pod=['data'=4,'model'=2]}\n"
      "ENTRY e {\n  ROOT x = f32[64,64] parameter(0), sharding=" +
      sharding + "\n}\n");
  const Mesh* from = MainMesh(*module);
  const Mesh* to = swap_axes ? MeshOf(*module, {{"model", sizes[1]}, {"data", sizes[0]}})
                             : MeshOf(*module, {{"data", sizes[0]}, {"model", sizes[1]}});
  const std::array<int, 2> axis_of = swap_axes ? std::array{1, 0} : std::array{0, 1};
  auto done = ResizeMesh(*module, from, to, axis_of);
  if (!done) return done.error().code;
  CHECK(module->DeviceCount() == to->device_count());
  return ToString(Named(*module, "x")->sharding(), {.tiles = true});
}

TEST_CASE("What was split along an axis is split along it by its new size", "[mesh]") {
  CHECK(Resized("{@pod, [{'data'}, {}]}", {16, 8}) ==
        "{devices=[16,1,8]<=[128] last_tile_dim_replicate}");
  // The same, by devices.
  CHECK(Resized("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", {16, 8}) ==
        "{devices=[16,1,8]<=[128] last_tile_dim_replicate}");
  CHECK(Resized("{devices=[2,4]<=[4,2]T(1,0)}", {2, 3}) == "{devices=[3,2]<=[2,3]T(1,0)}");
  CHECK(Resized("{devices=[8,1]<=[8]}", {2, 2}) == "{devices=[4,1]<=[4]}");
  CHECK(Resized("{replicated}", {2, 2}) == "{replicated}");
  CHECK(Resized("{maximal device=3}", {2, 2}) == "{maximal device=3}");
}

TEST_CASE("Axes may come in another order, and vanish", "[mesh]") {
  CHECK(Resized("{@pod, [{'data'}, {}]}", {4, 2}, /*swap_axes=*/true) ==
        "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  CHECK(Resized("{@pod, [{'data'}, {'model'}]}", {1, 2}) == "{devices=[1,2]<=[2]}");
}

TEST_CASE("What says nothing of other sizes is refused", "[mesh]") {
  CHECK(Resized("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", {8, 2}) == "E-ANNOTATE-009");
  CHECK(Resized("{devices=[8,1]0,3,1,2,7,6,5,4}", {8, 2}) == "E-ANNOTATE-013");
  CHECK(Resized("{manual}", {8, 2}) == "E-ANNOTATE-014");
  CHECK(Resized("{devices=[4,1,2]<=[8] last_tile_dims={manual}}", {8, 2}) == "E-ANNOTATE-014");
}

}  // namespace
}  // namespace gshard
