// Vectors of docs/semantics.md, "Reductions": windows and select-and-scatter.
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

const char* kBodies = R"(
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
digits { a = f32[] parameter(0) b = f32[] parameter(1) t = f32[] constant(10) m = f32[] multiply(a, t) ROOT c = f32[] add(m, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
gt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GT }
addbf { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }
)";

}  // namespace

TEST_CASE("windows: strides, dilations, padding", "[kernels][reduce_window]") {
  CheckVectors(R"(
    x = f32[6] constant({1,2,3,4,5,6})
    z = f32[] constant(0)
    a = f32[3] reduce-window(x, z), window={size=2 stride=2}, to_apply=add
    b = f32[4] reduce-window(x, z), window={size=2 rhs_dilate=2}, to_apply=add
    c = f32[10] reduce-window(x, z), window={size=2 lhs_dilate=2}, to_apply=add
    d = f32[7] reduce-window(x, z), window={size=2 pad=-1_3}, to_apply=add
    e = f32[0] reduce-window(x, z), window={size=7}, to_apply=add
    ea = f32[3] constant({3,7,11})
    eb = f32[4] constant({4,6,8,10})
    ec = f32[10] constant({1,2,2,3,3,4,4,5,5,6})
    ed = f32[7] constant({5,7,9,11,6,0,0})
    ee = f32[0] constant({})
    ROOT t = tuple(a, b, c, d, e, ea, eb, ec, ed, ee))",
               kBodies);
}

TEST_CASE("padding and holes are skipped, not filled with init", "[kernels][reduce_window]") {
  CheckVectors(R"(
    x = f32[6] constant({1,2,3,4,5,6})
    y = f32[3] constant({1,2,3})
    h = f32[] constant(100)
    a = f32[6] reduce-window(x, h), window={size=3 pad=1_1}, to_apply=add
    b = f32[4] reduce-window(y, h), window={size=2 lhs_dilate=2}, to_apply=add
    c = f32[5] reduce-window(y, h), window={size=1 pad=1_1}, to_apply=add
    d = f32[6] reduce-window(x, h), window={size=3 pad=1_1}, to_apply=digits
    ea = f32[6] constant({103,106,109,112,115,111})
    eb = f32[4] constant({101,102,102,103})
    ec = f32[5] constant({100,101,102,103,100})
    ed = f32[6] constant({10012,100123,100234,100345,100456,10056})
    ROOT t = tuple(a, b, c, d, ea, eb, ec, ed))",
               kBodies);
}

TEST_CASE("a cumulative window over no elements writes none", "[kernels][reduce_window]") {
  CheckVectors(R"(
    z = f32[] constant(0)
    x = f32[64,300,0] broadcast(z), dimensions={}
    a = f32[64,300,0] reduce-window(x, z), window={size=1x300x1 pad=0_0x299_0x0_0}, to_apply=add
    ea = f32[64,300,0] broadcast(z), dimensions={}
    ROOT t = tuple(a, ea))",
               kBodies);
}

TEST_CASE("cumulative windows", "[kernels][reduce_window]") {
  CheckVectors(R"(
    x = f32[4] constant({1,2,3,4})
    z = f32[] constant(0)
    a = f32[4] reduce-window(x, z), window={size=4 pad=3_0}, to_apply=add
    b = f32[4] reduce-window(x, z), window={size=4 pad=0_3}, to_apply=add
    c = f32[4] reduce-window(x, z), window={size=4 pad=3_0}, to_apply=digits
    d = f32[4] reduce-window(x, z), window={size=4 pad=0_3}, to_apply=digits
    m = f32[2,3] constant({{1,2,3},{4,5,6}})
    e = f32[2,3] reduce-window(m, z), window={size=2x1 pad=1_0x0_0}, to_apply=add
    f = f32[2,3] reduce-window(m, z), window={size=1x3 pad=0_0x2_0}, to_apply=add
    g = bf16[3] constant({256,1,1})
    gz = bf16[] constant(0)
    h = bf16[3] reduce-window(g, gz), window={size=3 pad=2_0}, to_apply=addbf
    ea = f32[4] constant({1,3,6,10})
    eb = f32[4] constant({10,9,7,4})
    ec = f32[4] constant({1,12,123,1234})
    ed = f32[4] constant({1234,234,34,4})
    ee = f32[2,3] constant({{1,2,3},{5,7,9}})
    ef = f32[2,3] constant({{1,3,6},{4,9,15}})
    eh = bf16[3] constant({256,256,258})
    ROOT t = tuple(a, b, c, d, e, f, h, ea, eb, ec, ed, ee, ef, eh))",
               kBodies);
}

TEST_CASE("windows over two dims of an image", "[kernels][reduce_window]") {
  CheckVectors(R"(
    i = f32[16] iota(), iota_dimension=0
    x = f32[1,4,4,1] reshape(i)
    z = f32[] constant(0)
    a = f32[1,2,2,1] reduce-window(x, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add
    y = f32[1,2,2,4] reshape(i)
    b = f32[1,1,1,4] reduce-window(y, z), window={size=1x2x2x1}, to_apply=add
    ea = f32[1,2,2,1] constant({{{{10},{18}},{{42},{50}}}})
    eb = f32[1,1,1,4] constant({{{{24,28,32,36}}}})
    ROOT t = tuple(a, b, ea, eb))",
               kBodies);
}

TEST_CASE("select-and-scatter: ties, overlap, NaN", "[kernels][reduce_window]") {
  CheckVectors(R"(
    x = f32[6] constant({1,3,3,1,2,2})
    s = f32[3] constant({10,20,30})
    z = f32[] constant(0)
    a = f32[6] select-and-scatter(x, s, z), window={size=2 stride=2}, select=ge, scatter=add
    b = f32[6] select-and-scatter(x, s, z), window={size=2 stride=2}, select=gt, scatter=add
    y = f32[4] constant({1,3,3,1})
    h = f32[] constant(100)
    c = f32[4] select-and-scatter(y, s, h), window={size=2}, select=ge, scatter=add
    d = f32[4] select-and-scatter(y, s, h), window={size=2}, select=gt, scatter=add
    n = f32[4] constant({1,nan,nan,1})
    q = f32[2] constant({10,20})
    e = f32[4] select-and-scatter(n, q, z), window={size=2 stride=2}, select=ge, scatter=add
    f = f32[4] select-and-scatter(y, q, z), window={size=2 stride=2}, select=ge, scatter=digits
    ea = f32[6] constant({0,10,20,0,30,0})
    eb = f32[6] constant({0,10,20,0,0,30})
    ec = f32[4] constant({100,130,130,100})
    ed = f32[4] constant({100,110,150,100})
    ee = f32[4] constant({0,10,0,20})
    ef = f32[4] constant({0,10,20,0})
    ROOT t = tuple(a, b, c, d, e, f, ea, eb, ec, ed, ee, ef))",
               kBodies);
}

TEST_CASE("any body: holes between the elements of a row, and a window over a scalar",
          "[kernels][reduce_window]") {
  CheckVectors(R"(
    y = f32[3] constant({1,2,3})
    s = f32[] constant(7)
    z = f32[] constant(0)
    a = f32[3] reduce-window(y, z), window={size=3 lhs_dilate=2}, to_apply=digits
    b = f32[] reduce-window(s, z), window={}, to_apply=digits
    ea = f32[3] constant({12,2,23})
    ROOT t = tuple(a, b, ea, s))",
               kBodies);
}

}  // namespace gshard::cpu::testing
