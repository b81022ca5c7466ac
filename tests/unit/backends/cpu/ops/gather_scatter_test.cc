// Vectors of docs/semantics.md, "Data movement": gather and scatter.
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

const char* kBodies = R"(
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
sub { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] subtract(a, b) }
take { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }
digits { a = s32[] parameter(0) b = s32[] parameter(1) t = s32[] constant(10) m = s32[] multiply(a, t) ROOT c = s32[] add(m, b) }
addf { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
addbf { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }
two { a = s32[] parameter(0) x = f32[] parameter(1) b = s32[] parameter(2) y = f32[] parameter(3)
      s = s32[] add(a, b) d = f32[] subtract(x, y) ROOT t = (s32[], f32[]) tuple(s, d) }
)";

}  // namespace

TEST_CASE("gather clamps its windows", "[kernels][gather_scatter]") {
  CheckVectors(R"(
    x = s32[3,4] constant({{0,1,2,3},{4,5,6,7},{8,9,10,11}})
    rows = s32[5] constant({0,2,5,-1,-7})
    a = s32[5,4] gather(x, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
    at = s32[2,2] constant({{2,3},{-1,1}})
    b = s32[2,2,2] gather(x, at), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,2}
    swapped = s32[2] constant({3,1})
    c = s32[] gather(x, swapped), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,1}
    u = u32[1] constant({4294967295})
    d = s32[1,4] gather(x, u), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
    e = s32[4,5] gather(x, rows), offset_dims={0}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
    ea = s32[5,4] constant({{0,1,2,3},{8,9,10,11},{8,9,10,11},{0,1,2,3},{0,1,2,3}})
    eb = s32[2,2,2] constant({{{6,7},{10,11}},{{1,2},{5,6}}})
    ec = s32[] constant(7)
    ed = s32[1,4] constant({{8,9,10,11}})
    ee = s32[4,5] constant({{0,8,8,0,0},{1,9,9,1,1},{2,10,10,2,2},{3,11,11,3,3}})
    ROOT t = tuple(a, b, c, d, e, ea, eb, ec, ed, ee))");
}

TEST_CASE("gather with batching dims", "[kernels][gather_scatter]") {
  CheckVectors(R"(
    x = s32[2,3] constant({{10,11,12},{20,21,22}})
    i = s32[2,2,1] constant({{{2},{0}},{{1},{9}}})
    a = s32[2,2] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
    ea = s32[2,2] constant({{12,10},{21,22}})
    ROOT t = tuple(a, ea))");
}

TEST_CASE("scatter skips windows that leave the operand", "[kernels][gather_scatter]") {
  CheckVectors(R"(
    z = s32[] constant(0)
    x = s32[5] broadcast(z), dimensions={}
    i = s32[4,1] constant({{3},{-1},{4},{0}})
    u = s32[4,2] constant({{1,1},{2,2},{3,3},{4,4}})
    a = s32[5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
    big = u32[1] constant({4294967295})
    v = s32[1] constant({7})
    b = s32[5] scatter(x, big, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
    ea = s32[5] constant({4,4,0,1,1})
    ROOT t = tuple(a, b, ea, x))",
               kBodies);
}

TEST_CASE("scatter applies duplicates in the order of the updates", "[kernels][gather_scatter]") {
  CheckVectors(R"(
    one = s32[] constant(1)
    x = s32[4] broadcast(one), dimensions={}
    i = s32[4] constant({2,2,0,2})
    u = s32[4] constant({3,4,5,6})
    a = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=digits
    b = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sub
    c = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=take
    d = s32[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add
    ea = s32[4] constant({15,1,1346,1})
    eb = s32[4] constant({-4,1,-12,1})
    ec = s32[4] constant({5,1,6,1})
    ed = s32[4] constant({6,1,14,1})
    ROOT t = tuple(a, b, c, d, ea, eb, ec, ed))",
               kBodies);
}

TEST_CASE("overlapping windows whose window dim is outermost interleave",
          "[kernels][gather_scatter]") {
  // Update [window, batch]: row-major order is (w0,b0), (w0,b1), (w1,b0), (w1,b1); element 1 is met
  // by (w0,b1) and then by (w1,b0).
  CheckVectors(R"(
    z = s32[] constant(0)
    x = s32[3] broadcast(z), dimensions={}
    i = s32[2,1] constant({{0},{1}})
    u = s32[2,2] constant({{1,2},{3,4}})
    a = s32[3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=take
    b = s32[3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
    ea = s32[3] constant({1,3,4})
    eb = s32[3] constant({1,5,4})
    ROOT t = tuple(a, b, ea, eb))",
               kBodies);
}

TEST_CASE("variadic, batched and small-float scatters", "[kernels][gather_scatter]") {
  CheckVectors(R"(
    x = s32[3] constant({1,2,3})
    y = f32[3] constant({1,2,3})
    i = s32[2] constant({1,1})
    u = s32[2] constant({10,20})
    v = f32[2] constant({0.5,0.25})
    s = (s32[3], f32[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=two
    a = s32[3] get-tuple-element(s), index=0
    b = f32[3] get-tuple-element(s), index=1
    m = s32[2,3] constant({{0,0,0},{0,0,0}})
    j = s32[2,2,1] constant({{{2},{0}},{{1},{5}}})
    w = s32[2,2] constant({{1,2},{3,4}})
    c = s32[2,3] scatter(m, j, w), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add
    h = bf16[2] constant({256, 1})
    k = s32[3] constant({0,0,1})
    g = bf16[3] constant({1,1,1})
    d = bf16[2] scatter(h, k, g), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=addbf
    ea = s32[3] constant({1,32,3})
    eb = f32[3] constant({1,1.25,3})
    ec = s32[2,3] constant({{2,0,1},{0,3,0}})
    ed = bf16[2] constant({256,2})
    ROOT t = tuple(a, b, c, d, ea, eb, ec, ed))",
               kBodies);
}

}  // namespace gshard::cpu::testing
