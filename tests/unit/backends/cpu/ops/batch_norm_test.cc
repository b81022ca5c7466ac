// Expected values by hand from the formulas of docs/semantics.md.
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("batch norm, training and inference", "[kernels][batch_norm]") {
  // Feature 0: {1,3,5,7}, mean 4, variance 5; feature 1: {2,2,2,2}. epsilon 4: 3 = sqrt(5 + 4).
  CheckVectors(R"(
    x = f32[2,2,2] constant({{{1,3},{2,2}},{{5,7},{2,2}}})
    scale = f32[2] constant({3, 5})
    offset = f32[2] constant({10, 20})
    t = (f32[2,2,2], f32[2], f32[2]) batch-norm-training(x, scale, offset), epsilon=4, feature_index=1
    y = f32[2,2,2] get-tuple-element(t), index=0
    mean = f32[2] get-tuple-element(t), index=1
    variance = f32[2] get-tuple-element(t), index=2
    m = f32[2] constant({1, 2})
    v = f32[2] constant({5, 0})
    i = f32[2,2,2] batch-norm-inference(x, scale, offset, m, v), epsilon=4, feature_index=1
    ey = f32[2,2,2] constant({{{7,9},{20,20}},{{11,13},{20,20}}})
    em = f32[2] constant({4, 2})
    ev = f32[2] constant({5, 0})
    ei = f32[2,2,2] constant({{{10,12},{20,20}},{{14,16},{20,20}}})
    ROOT r = tuple(y, mean, variance, i, ey, em, ev, ei))",
               "", 2);
}

TEST_CASE("batch norm, features last, bf16 rounds once", "[kernels][batch_norm]") {
  CheckVectors(R"(
    x = bf16[4,2] constant({{1,2},{3,2},{5,2},{7,2}})
    scale = bf16[2] constant({3, 5})
    offset = bf16[2] constant({10, 20})
    t = (bf16[4,2], bf16[2], bf16[2]) batch-norm-training(x, scale, offset), epsilon=4, feature_index=1
    ey = bf16[4,2] constant({{7,20},{9,20},{11,20},{13,20}})
    em = bf16[2] constant({4, 2})
    ev = bf16[2] constant({5, 0})
    ROOT r = tuple(t, ey, em, ev))");
}

TEST_CASE("batch norm gradient", "[kernels][batch_norm]") {
  // variance + epsilon = 4. normal = (x-mean)/2 = {-1,0,1}, doffset = 6, dscale = 1*-1 + 4 = 3,
  // dx = scale/2 (dy - 2 - normal * 1) with scale 2.
  CheckVectors(R"(
    x = f64[3,1] constant({{-2},{0},{2}})
    scale = f64[1] constant({2})
    mean = f64[1] constant({0})
    variance = f64[1] constant({3})
    dy = f64[3,1] constant({{1},{1},{4}})
    t = (f64[3,1], f64[1], f64[1]) batch-norm-grad(x, scale, mean, variance, dy), epsilon=1, feature_index=1
    dx = f64[3,1] constant({{0},{-1},{1}})
    dscale = f64[1] constant({3})
    doffset = f64[1] constant({6})
    ROOT r = tuple(t, dx, dscale, doffset))");
}

}  // namespace gshard::cpu::testing
