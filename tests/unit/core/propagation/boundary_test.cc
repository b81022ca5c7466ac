#include "core/propagation/boundary.h"

#include "core/propagation/annotations.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {

// Whoever restores the boundary propagates from it once more: each change must be told.
TEST_CASE("restoring the root or a parameter alone is a change", "[propagation]") {
  const auto module = Parsed(R"(HloModule m, num_partitions=2
ENTRY e {
  p = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  q = f32[8] parameter(1), sharding={devices=[2]<=[2]}
  s = f32[8] add(p, q)
  ROOT r = f32[8] negate(s), sharding={devices=[2]<=[2]}
})");
  const Sharding* whole = module->context().Replicated();
  const Sharding* cut = module->entry()->root()->sharding();
  BoundaryFlags flags{.parameters = {false, false}, .results = {false}};
  Annotations annotations;
  annotations.root_shardings = {cut};
  annotations.parameter_shardings = {cut, cut};
  CHECK(!RestoreBoundary(*module, annotations, flags, nullptr));
  annotations.root_shardings = {whole};
  CHECK(RestoreBoundary(*module, annotations, flags, nullptr));
  CHECK(module->entry()->root()->sharding() == whole);
  CHECK(!RestoreBoundary(*module, annotations, flags, nullptr));
  annotations.parameter_shardings = {whole, cut};
  CHECK(RestoreBoundary(*module, annotations, flags, nullptr));
  CHECK(ShardingOf(*module, "p") == "{replicated}");
  CHECK(ShardingOf(*module, "q") == ToString(cut));
  CHECK(!RestoreBoundary(*module, annotations, flags, nullptr));
}

}  // namespace gshard
