#include "tests/unit/backends/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("a small mlp", "[kernels]") {
  CheckVectors(R"(
    x = f32[2,3] constant({{1,2,3},{4,5,6}})
    w = f32[3,2] constant({{1,0},{0,1},{1,1}})
    d = f32[2,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    b = f32[2] constant({-5, 1})
    bb = f32[2,2] broadcast(b), dimensions={1}
    s = f32[2,2] add(d, bb)
    z = f32[] constant(0)
    zz = f32[2,2] broadcast(z), dimensions={}
    r = f32[2,2] maximum(s, zz)
    t = f32[2,2] transpose(r), dimensions={1,0}
    q = f32[2] reduce(t, z), dimensions={0}, to_apply=add
    e1 = f32[2,2] constant({{0, 5}, {6, 12}})
    e2 = f32[2] constant({6, 17})
    ROOT o = tuple(t, q, e1, e2))",
               "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }");
}

}  // namespace gshard::cpu::testing
