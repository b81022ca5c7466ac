// Vectors of docs/semantics.md, "Data movement": slices, pads, concatenation, reversal.
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("pad: low, high, interior, negative", "[kernels][slice]") {
  CheckVectors(R"(
    x = f32[5] constant({1,2,3,4,5})
    v = f32[] constant(9)
    a = f32[6] pad(x, v), padding=-1_2
    b = f32[4] pad(x, v), padding=1_-2
    c = f32[7] pad(x, v), padding=-2_0_1
    d = f32[8] pad(x, v), padding=2_-3_1
    e = f32[12] pad(x, v), padding=-5_4_2
    ea = f32[6] constant({2,3,4,5,9,9})
    eb = f32[4] constant({9,1,2,3})
    ec = f32[7] constant({2,9,3,9,4,9,5})
    ed = f32[8] constant({9,9,1,9,2,9,3,9})
    ee = f32[12] constant({9,3,9,9,4,9,9,5,9,9,9,9})
    ROOT t = tuple(a, b, c, d, e, ea, eb, ec, ed, ee))");
}

TEST_CASE("pad: borders of several dims, nothing left, nothing added", "[kernels][slice]") {
  CheckVectors(R"(
    x = s32[2,2] constant({{1,2},{3,4}})
    v = s32[] constant(0)
    a = s32[3,4] pad(x, v), padding=1_0x1_1
    b = s32[1,3] pad(x, v), padding=-1_0x0_1
    c = s32[2,2] pad(x, v), padding=-2_2x0_0
    d = s32[2,2] pad(x, v), padding=0_0x0_0
    z = s32[0,2] constant({})
    e = s32[1,2] pad(z, v), padding=1_0x0_0
    ea = s32[3,4] constant({{0,0,0,0},{0,1,2,0},{0,3,4,0}})
    eb = s32[1,3] constant({{3,4,0}})
    ec = s32[2,2] constant({{0,0},{0,0}})
    ee = s32[1,2] constant({{0,0}})
    ROOT t = tuple(a, b, c, d, e, ea, eb, ec, x, ee))");
}

TEST_CASE("dynamic slices clamp their starts by the index type's own sign", "[kernels][slice]") {
  CheckVectors(R"(
    x = s32[10] iota(), iota_dimension=0
    i1 = s32[] constant(-3)
    i2 = s32[] constant(8)
    i3 = s32[] constant(2147483647)
    i4 = u32[] constant(4294967295)
    i5 = u8[] constant(200)
    i6 = s8[] constant(-128)
    a = s32[4] dynamic-slice(x, i1), dynamic_slice_sizes={4}
    b = s32[4] dynamic-slice(x, i2), dynamic_slice_sizes={4}
    c = s32[4] dynamic-slice(x, i3), dynamic_slice_sizes={4}
    d = s32[4] dynamic-slice(x, i4), dynamic_slice_sizes={4}
    e = s32[4] dynamic-slice(x, i5), dynamic_slice_sizes={4}
    f = s32[4] dynamic-slice(x, i6), dynamic_slice_sizes={4}
    u = s32[2] constant({-1,-2})
    g = s32[10] dynamic-update-slice(x, u, i2)
    h = s32[10] dynamic-update-slice(x, u, i3)
    lo = s32[4] constant({0,1,2,3})
    hi = s32[4] constant({6,7,8,9})
    eg = s32[10] constant({0,1,2,3,4,5,6,7,-1,-2})
    ROOT t = tuple(a, b, c, d, e, f, g, h, lo, hi, hi, hi, hi, lo, eg, eg))");
}

TEST_CASE("dynamic slices of matrices, with scalars or one vector of starts", "[kernels][slice]") {
  CheckVectors(R"(
    x = s32[3,4] constant({{0,1,2,3},{4,5,6,7},{8,9,10,11}})
    i = s32[] constant(1)
    j = s32[] constant(2)
    v = s32[2] constant({1,2})
    a = s32[2,2] dynamic-slice(x, i, j), dynamic_slice_sizes={2,2}
    b = s32[2,2] dynamic-slice(x, v), dynamic_slice_sizes={2,2}
    u = s32[1,2] constant({{-1,-2}})
    c = s32[3,4] dynamic-update-slice(x, u, i, j)
    ea = s32[2,2] constant({{6,7},{10,11}})
    ec = s32[3,4] constant({{0,1,2,3},{4,5,-1,-2},{8,9,10,11}})
    ROOT t = tuple(a, b, c, ea, ea, ec))");
}

TEST_CASE("slice, reverse, concatenate", "[kernels][slice]") {
  CheckVectors(R"(
    x = s32[3,4] constant({{0,1,2,3},{4,5,6,7},{8,9,10,11}})
    a = s32[2,2] slice(x), slice={[1:3], [1:3]}
    b = s32[2,2] slice(x), slice={[0:3:2], [1:4:2]}
    c = s32[3,4] reverse(x), dimensions={0,1}
    d = s32[3,4] reverse(x), dimensions={1}
    e = s32[0,4] slice(x), slice={[2:2], [0:4]}
    s = s32[3,2] slice(x), slice={[0:3], [0:2]}
    f = s32[3,6] concatenate(x, s), dimensions={1}
    r = s32[1,4] slice(x), slice={[2:3], [0:4]}
    g = s32[4,4] concatenate(r, e, x), dimensions={0}
    ea = s32[2,2] constant({{5,6},{9,10}})
    eb = s32[2,2] constant({{1,3},{9,11}})
    ec = s32[3,4] constant({{11,10,9,8},{7,6,5,4},{3,2,1,0}})
    ed = s32[3,4] constant({{3,2,1,0},{7,6,5,4},{11,10,9,8}})
    ef = s32[3,6] constant({{0,1,2,3,0,1},{4,5,6,7,4,5},{8,9,10,11,8,9}})
    eg = s32[4,4] constant({{8,9,10,11},{0,1,2,3},{4,5,6,7},{8,9,10,11}})
    ROOT t = tuple(a, b, c, d, f, g, ea, eb, ec, ed, ef, eg))");
}

TEST_CASE("get-dimension-size; setting a size to its bound", "[kernels][slice]") {
  CheckVectors(R"(
    x = f32[5] constant({1,2,3,4,5})
    n = s32[] constant(7)
    a = s32[] get-dimension-size(x), dimensions={0}
    b = f32[5] set-dimension-size(x, n), dimensions={0}
    ea = s32[] constant(5)
    ROOT t = tuple(a, b, ea, x))");
}

}  // namespace gshard::cpu::testing
