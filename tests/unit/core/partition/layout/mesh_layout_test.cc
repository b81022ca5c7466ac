#include "core/partition/layout/mesh_layout.h"

#include <catch2/catch.hpp>

namespace gshard {

TEST_CASE("a layout of summands is not replicated", "[partition]") {
  MeshLayout layout;
  layout.kind = MeshLayout::Kind::kTiled;
  layout.dims.resize(2);
  CHECK(layout.IsReplicated());
  layout.unreduced = {{2, 1}};
  CHECK(!layout.IsReplicated());
  layout.unreduced.clear();
  layout.dims[1] = {{2, 1}};
  CHECK(!layout.IsReplicated());
}

}  // namespace gshard
