#include "core/pipeline/restack.h"

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {

TEST_CASE("A row whose values were not printed is no row of zeros", "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  w = f32[4,1] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[1,1] slice(w), slice={[0:1], [0:1]}
  b = f32[1,1] slice(w), slice={[1:2], [0:1]}
  c = f32[1,1] slice(w), slice={[2:3], [0:1]}
  elided = f32[1,1] constant({...})
  ROOT r = f32[4,1] concatenate(a, b, c, elided), dimensions={0}
})");
  RestackRows(*m, 2);
  CHECK(m->entry()->root()->opcode() == Opcode::kReshape);  // two rows a device, put together there
  CHECK(Named(*m, "elided") != nullptr);
}

}  // namespace gshard::pipeline
