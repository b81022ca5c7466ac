// Movements, contractions, reductions, indexing, control flow against finite differences.
#include <catch2/catch.hpp>

#include "tests/gradient/finite_differences.h"

namespace gshard {
namespace {

constexpr const char* kAdd =
    "add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] add(a, b) }\n";

struct Case {
  const char* name;
  const char* text;  // computations and entry, without the header
  double low = -2, high = 2;
};

void Agree(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    for (bool remat : {false, true}) {
      const GradientVerdict verdict =
          CheckGradient(std::string("HloModule m\n") + kAdd + c.text,
                        {.seed = 7, .low = c.low, .high = c.high, .rematerialize = remat});
      INFO(c.name << (remat ? ", rematerialized" : "") << ": " << verdict.why);
      CHECK(verdict.kind == GradientVerdict::Kind::kAgrees);
    }
  }
}

}  // namespace

TEST_CASE("movements", "[autodiff]") {
  Agree({
      {"broadcast", R"(ENTRY main {
  x = f64[3,1,2] parameter(0)
  ROOT y = f64[2,4,3,5] broadcast(x), dimensions={2,1,0}
})"},
      {"reshape, transpose, reverse", R"(ENTRY main {
  x = f64[2,3,4] parameter(0)
  t = f64[4,2,3] transpose(x), dimensions={2,0,1}
  r = f64[8,3] reshape(t)
  ROOT y = f64[8,3] reverse(r), dimensions={0}
})"},
      {"slice", R"(ENTRY main {
  x = f64[7,6] parameter(0)
  ROOT y = f64[2,2] slice(x), slice={[1:6:3], [2:6:2]}
})"},
      {"pad", R"(ENTRY main {
  x = f64[4,5] parameter(0)
  v = f64[] parameter(1)
  ROOT y = f64[9,4] pad(x, v), padding=1_1_1x-2_1_0
})"},
      {"pad, negative with interior", R"(ENTRY main {
  x = f64[5] parameter(0)
  v = f64[] parameter(1)
  ROOT y = f64[8] pad(x, v), padding=-2_1_1
})"},
      {"concatenate", R"(ENTRY main {
  x = f64[2,3] parameter(0)
  y = f64[2,2] parameter(1)
  ROOT z = f64[2,8] concatenate(x, y, x), dimensions={1}
})"},
      {"dynamic slices", R"(ENTRY main {
  x = f64[5,4] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  s = f64[2,3] dynamic-slice(x, i, j), dynamic_slice_sizes={2,3}
  t = f64[2,3] dynamic-slice(x, j, i), dynamic_slice_sizes={2,3}
  p = f64[2,3] multiply(s, t)
  ROOT u = f64[5,4] dynamic-update-slice(x, p, j, i)
})"},
      {"opt-barrier", R"(ENTRY main {
  x = f64[3] parameter(0)
  y = f64[3] parameter(1)
  t = (f64[3], f64[3]) tuple(x, y)
  b = (f64[3], f64[3]) opt-barrier(t)
  u = f64[3] get-tuple-element(b), index=0
  v = f64[3] get-tuple-element(b), index=1
  ROOT r = f64[3] multiply(u, v)
})"},
      {"bitcast", R"(ENTRY main {
  x = f64[2,3] parameter(0)
  ROOT y = f64[6] bitcast(x)
})"},
      {"copy-start", R"(ENTRY main {
  x = f64[2,3] parameter(0)
  s = (f64[2,3], f64[2,3], u32[]) copy-start(x)
  d = f64[2,3] copy-done(s)
  ROOT y = f64[2,3] multiply(d, x)
})"},
      {"tokens", R"(ENTRY main {
  x = f64[3] parameter(0)
  t = token[] after-all()
  d = f64[3] add-dependency(x, t)
  ROOT y = f64[3] sine(d)
})"},
  });
}

TEST_CASE("contractions", "[autodiff]") {
  Agree({
      {"dot, all kinds of dims", R"(ENTRY main {
  x = f64[3,2,4,5] parameter(0)
  y = f64[5,2,6,3] parameter(1)
  ROOT z = f64[2,4,6] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={0,3}, rhs_contracting_dims={3,0}
})"},
      {"outer product", R"(ENTRY main {
  x = f64[3] parameter(0)
  y = f64[2] parameter(1)
  ROOT z = f64[3,2] dot(x, y), lhs_contracting_dims={}, rhs_contracting_dims={}
})"},
      {"complex dot", R"(ENTRY main {
  x = c128[2,3] parameter(0)
  y = c128[3,2] parameter(1)
  ROOT z = c128[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"},
      {"ragged-dot, free", R"(ENTRY main {
  x = f64[6,3] parameter(0)
  y = f64[2,3,4] parameter(1)
  g = s32[2] constant({2, 3})
  ROOT z = f64[6,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
})"},
      {"ragged-dot, contracting", R"(ENTRY main {
  x = f64[6,3] parameter(0)
  y = f64[6,4] parameter(1)
  g = s32[2] constant({2, 3})
  ROOT z = f64[2,3,4] ragged-dot(x, y, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}
})"},
      {"ragged-dot, batch", R"(ENTRY main {
  x = f64[2,6,3] parameter(0)
  y = f64[2,3,4] parameter(1)
  g = s32[2] constant({1, 1})
  ROOT z = f64[2,6,4] ragged-dot(x, y, g), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}
})"},
      {"scaled-dot", R"(ENTRY main {
  x = f64[4,6] parameter(0)
  y = f64[6,2] parameter(1)
  sx = f64[4,3] parameter(2)
  sy = f64[] parameter(3)
  ROOT z = f64[4,2] scaled-dot(x, y, sx, sy), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"},
      {"convolution, all windows", R"(ENTRY main {
  x = f64[2,9,8,3] parameter(0)
  w = f64[3,2,3,4] parameter(1)
  ROOT y = f64[2,6,23,4] convolution(x, w), window={size=3x2 stride=2x1 pad=-1_0x2_0 lhs_dilate=2x3 rhs_dilate=2x1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f
})"},
      {"convolution, feature groups", R"(ENTRY main {
  x = f64[2,5,6] parameter(0)
  w = f64[3,2,9] parameter(1)
  ROOT y = f64[2,3,9] convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=3
})"},
      {"convolution, batch groups", R"(ENTRY main {
  x = f64[6,5,2] parameter(0)
  w = f64[3,2,6] parameter(1)
  ROOT y = f64[2,5,6] convolution(x, w), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, batch_group_count=3
})"},
  });
}

TEST_CASE("reductions", "[autodiff]") {
  Agree({
      {"sum", R"(ENTRY main {
  x = f64[2,3,4] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[3] reduce(x, i), dimensions={0,2}, to_apply=add
})"},
      {"product",
       R"(mul { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] multiply(a, b) }
ENTRY main {
  x = f64[2,3] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[2] reduce(x, i), dimensions={1}, to_apply=mul
})"},
      {"maximum against its initial value",
       R"(max { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] maximum(a, b) }
ENTRY main {
  x = f64[6,3] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[6] reduce(x, i), dimensions={1}, to_apply=max
})"},
      {"arg-max",
       R"(best { a = f64[] parameter(0) i = s32[] parameter(1) b = f64[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE v = f64[] select(g, a, b) k = s32[] select(g, i, j) ROOT r = (f64[], s32[]) tuple(v, k) }
ENTRY main {
  x = f64[4,5] parameter(0)
  n = s32[4,5] iota(), iota_dimension=1
  i = f64[] constant(-inf)
  z = s32[] constant(0)
  ROOT y = (f64[4], s32[4]) reduce(x, n, i, z), dimensions={1}, to_apply=best
})"},
      {"another reducer",
       R"(f { a = f64[] parameter(0) b = f64[] parameter(1) p = f64[] multiply(a, b) s = f64[] sine(p) ROOT c = f64[] add(s, b) }
ENTRY main {
  x = f64[4,5,2] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[5] reduce(x, i), dimensions={0,2}, to_apply=f
})"},
      {"reduce-window sum", R"(ENTRY main {
  x = f64[7,6] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[6,3] reduce-window(x, i), window={size=3x2 stride=2x2 pad=1_2x0_1 lhs_dilate=2x1 rhs_dilate=2x1}, to_apply=add
})"},
      {"reduce-window maximum",
       R"(max { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] maximum(a, b) }
ENTRY main {
  x = f64[7,6] parameter(0)
  i = f64[] constant(-inf)
  ROOT y = f64[4,3] reduce-window(x, i), window={size=3x2 stride=2x2 pad=1_1x0_0}, to_apply=max
})"},
      {"reduce-window product",
       R"(mul { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] multiply(a, b) }
ENTRY main {
  x = f64[5] parameter(0)
  i = f64[] parameter(1)
  ROOT y = f64[5] reduce-window(x, i), window={size=5 pad=4_0}, to_apply=mul
})"},
      {"select-and-scatter",
       R"(ge { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
ENTRY main {
  x = f64[6,6] parameter(0)
  s = f64[3,3] parameter(1)
  i = f64[] parameter(2)
  ROOT y = f64[6,6] select-and-scatter(x, s, i), window={size=2x3 stride=2x2 pad=0_0x0_1}, select=ge, scatter=add
})"},
      {"batch-norm-training", R"(ENTRY main {
  x = f64[3,2,4] parameter(0)
  s = f64[2] parameter(1)
  o = f64[2] parameter(2)
  ROOT y = (f64[3,2,4], f64[2], f64[2]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=1
})"},
      {"batch-norm-inference", R"(ENTRY main {
  x = f64[3,2] parameter(0)
  s = f64[2] parameter(1)
  o = f64[2] parameter(2)
  m = f64[2] parameter(3)
  v = f64[2] parameter(4)
  ROOT y = f64[3,2] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=1
})",
       0.3, 2},
      {"batch-norm-grad", R"(ENTRY main {
  x = f64[3,2] parameter(0)
  s = f64[2] parameter(1)
  m = f64[2] parameter(2)
  v = f64[2] parameter(3)
  g = f64[3,2] parameter(4)
  ROOT y = (f64[3,2], f64[2], f64[2]) batch-norm-grad(x, s, m, v, g), epsilon=0.01, feature_index=1
})",
       0.3, 2},
      {"scan",
       R"(step { x = f64[3] parameter(0) c = f64[3] parameter(1) p = f64[3] multiply(x, c) s = f64[3] sine(p) n = f64[3] add(s, x) ROOT r = (f64[3], f64[3]) tuple(p, n) }
ENTRY main {
  x = f64[3,5] parameter(0)
  c = f64[3] parameter(1)
  ROOT y = (f64[3,5], f64[3]) scan(x, c), dimensions={1}, num_carries=1, is_reverse=true, to_apply=step
})"},
  });
}

TEST_CASE("indexing", "[autodiff]") {
  Agree({
      {"gather", R"(ENTRY main {
  x = f64[5,4,3] parameter(0)
  i = s32[2,6] parameter(1)
  ROOT y = f64[2,6,3] gather(x, i), offset_dims={0,2}, collapsed_slice_dims={0}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,2,3}
})"},
      {"gather with batching", R"(ENTRY main {
  x = f64[4,5] parameter(0)
  i = s32[4,2,1] parameter(1)
  ROOT y = f64[4,2] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
})"},
      {"scatter-add", R"(ENTRY main {
  x = f64[4,3] parameter(0)
  i = s32[5,1] constant({{0},{3},{3},{9},{1}})
  u = f64[5,3] parameter(1)
  ROOT y = f64[4,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
})"},
      {"scatter, the last one wins",
       R"(second { a = f64[] parameter(0) ROOT b = f64[] parameter(1) }
ENTRY main {
  x = f64[4] parameter(0)
  i = s32[5,1] constant({{0},{3},{3},{9},{1}})
  u = f64[5] parameter(1)
  ROOT y = f64[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second
})"},
      {"scatter products",
       R"(mul { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] multiply(a, b) }
ENTRY main {
  x = f64[4] parameter(0)
  i = s32[5,1] constant({{0},{3},{3},{9},{1}})
  u = f64[5] parameter(1)
  ROOT y = f64[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mul
})"},
      {"scatter maxima",
       R"(max { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] maximum(a, b) }
ENTRY main {
  x = f64[4] parameter(0)
  i = s32[5,1] constant({{0},{3},{3},{9},{1}})
  u = f64[5] parameter(1)
  ROOT y = f64[4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max
})"},
      {"scatter with another combiner",
       R"(f { a = f64[] parameter(0) b = f64[] parameter(1) s = f64[] sine(a) ROOT c = f64[] multiply(s, b) }
ENTRY main {
  x = f64[4,2] parameter(0)
  i = s32[5,1] constant({{0},{3},{3},{9},{1}})
  u = f64[5,2] parameter(1)
  ROOT y = f64[4,2] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
})"},
      {"sort of pairs",
       R"(less { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] parameter(2) d = f64[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f64[3,6] parameter(0)
  y = f64[3,6] parameter(1)
  ROOT s = (f64[3,6], f64[3,6]) sort(x, y), dimensions={1}, is_stable=true, to_apply=less
})"},
      {"sort of one",
       R"(less { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT }
ENTRY main {
  x = f64[6,2] parameter(0)
  ROOT s = f64[6,2] sort(x), dimensions={0}, to_apply=less
})"},
      {"topk", R"(ENTRY main {
  x = f64[3,6] parameter(0)
  ROOT t = (f64[3,2], s32[3,2]) topk(x), k=2, largest=true
})"},
  });
}

TEST_CASE("control flow", "[autodiff]") {
  Agree({
      {"while", R"(body { s = (s32[], f64[2,3], f64[3,3], f64[4,2,3], f64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)  n = s32[] add(i, one)
  x = f64[2,3] get-tuple-element(s), index=1  w = f64[3,3] get-tuple-element(s), index=2
  ys = f64[4,2,3] get-tuple-element(s), index=3  xs = f64[4] get-tuple-element(s), index=4
  v = f64[1] dynamic-slice(xs, i), dynamic_slice_sizes={1}  u = f64[] reshape(v)  b = f64[2,3] broadcast(u), dimensions={}
  d = f64[2,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f64[2,3] multiply(d, b)  t = f64[2,3] tanh(e)  r = f64[1,2,3] reshape(t)  z = s32[] constant(0)
  o = f64[4,2,3] dynamic-update-slice(ys, r, i, z, z)
  ROOT root = (s32[], f64[2,3], f64[3,3], f64[4,2,3], f64[4]) tuple(n, t, w, o, xs) }
condition { s = (s32[], f64[2,3], f64[3,3], f64[4,2,3], f64[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  k = s32[] constant(4)  ROOT c = pred[] compare(i, k), direction=LT }
ENTRY main {
  x = f64[2,3] parameter(0)
  w = f64[3,3] parameter(1)
  xs = f64[4] parameter(2)
  z = s32[] constant(0)
  o = f64[] constant(0)
  ys = f64[4,2,3] broadcast(o), dimensions={}
  i = (s32[], f64[2,3], f64[3,3], f64[4,2,3], f64[4]) tuple(z, x, w, ys, xs)
  ROOT l = (s32[], f64[2,3], f64[3,3], f64[4,2,3], f64[4]) while(i), condition=condition, body=body
})"},
      {"while on an array, never entered, and one in another",
       R"(inner { s = (f64[2], s32[]) parameter(0) x = f64[2] get-tuple-element(s), index=0 y = f64[2] sine(x) i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1) n = s32[] add(i, one) ROOT r = (f64[2], s32[]) tuple(y, n) }
inner_condition { s = (f64[2], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1 k = s32[] constant(3) ROOT c = pred[] compare(i, k), direction=LT }
outer { s = (f64[2], s32[]) parameter(0) x = f64[2] get-tuple-element(s), index=0 z = s32[] constant(0) t = (f64[2], s32[]) tuple(x, z)
  l = (f64[2], s32[]) while(t), condition=inner_condition, body=inner
  y = f64[2] get-tuple-element(l), index=0 m = f64[2] multiply(x, y) i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1) n = s32[] add(i, one) ROOT r = (f64[2], s32[]) tuple(m, n) }
outer_condition { s = (f64[2], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1 k = s32[] constant(2) ROOT c = pred[] compare(i, k), direction=LT }
never { s = (f64[2], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1 k = s32[] constant(0) ROOT c = pred[] compare(i, k), direction=LT }
never_body { s = (f64[2], s32[]) parameter(0) x = f64[2] get-tuple-element(s), index=0 y = f64[2] cosine(x) i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1) n = s32[] add(i, one) ROOT r = (f64[2], s32[]) tuple(y, n) }
ENTRY main {
  x = f64[2] parameter(0)
  z = s32[] constant(0)
  t = (f64[2], s32[]) tuple(x, z)
  l = (f64[2], s32[]) while(t), condition=outer_condition, body=outer
  y = f64[2] get-tuple-element(l), index=0
  u = (f64[2], s32[]) tuple(y, z)
  ROOT v = (f64[2], s32[]) while(u), condition=never, body=never_body
})"},
      {"conditional",
       R"(left { p = (f64[3], f64[3]) parameter(0) x = f64[3] get-tuple-element(p), index=0 y = f64[3] get-tuple-element(p), index=1 s = f64[3] sine(x) ROOT r = f64[3] multiply(s, y) }
right { x = f64[3] parameter(0) e = f64[3] exponential(x) ROOT r = f64[3] multiply(e, x) }
ENTRY main {
  p = pred[] parameter(0)
  q = pred[] parameter(1)
  x = f64[3] parameter(2)
  y = f64[3] parameter(3)
  t = (f64[3], f64[3]) tuple(x, y)
  a = f64[3] conditional(p, t, y), true_computation=left, false_computation=right
  i = s32[] convert(q)
  u = (f64[3], f64[3]) tuple(a, x)
  ROOT b = f64[3] conditional(i, u, a, x), branch_computations={left, right, right}
})"},
      {"calls of one computation, fusion, async",
       R"(f { x = f64[3] parameter(0) y = f64[3] parameter(1) s = f64[3] tanh(x) ROOT r = f64[3] multiply(s, y) }
g { x = f64[3] parameter(0) y = f64[3] parameter(1) a = f64[3] call(x, y), to_apply=f ROOT b = f64[3] call(a, x), to_apply=f }
h { x = f64[3] parameter(0) ROOT y = f64[3] sine(x) }
ENTRY main {
  x = f64[3] parameter(0)
  y = f64[3] parameter(1)
  a = f64[3] call(x, y), to_apply=g
  b = f64[3] fusion(a, y), kind=kLoop, calls=f
  s = ((f64[3]), f64[3], u32[]) async-start(b), calls=h
  d = f64[3] async-done(s)
  ROOT c = f64[3] call(d, a), to_apply=f
})"},
  });
}

TEST_CASE("linear algebra", "[autodiff]") {
  Agree({
      {"cholesky", R"(ENTRY main {
  x = f64[2,3,3] parameter(0)
  p = f64[2,3,3] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = s32[3,3] iota(), iota_dimension=0
  j = s32[3,3] iota(), iota_dimension=1
  e = pred[3,3] compare(i, j), direction=EQ
  f = f64[3,3] convert(e)
  g = f64[2,3,3] broadcast(f), dimensions={1,2}
  a = f64[2,3,3] add(p, g)
  l = f64[2,3,3] cholesky(a), lower=true
  u = f64[2,3,3] cholesky(a), lower=false
  m = pred[3,3] compare(i, j), direction=GE
  mm = pred[2,3,3] broadcast(m), dimensions={1,2}
  z = f64[] constant(0)
  zz = f64[2,3,3] broadcast(z), dimensions={}
  ll = f64[2,3,3] select(mm, l, zz)
  n = pred[2,3,3] not(mm)
  uu = f64[2,3,3] select(n, u, zz)
  ROOT r = (f64[2,3,3], f64[2,3,3]) tuple(ll, uu)
})"},
      {"complex cholesky", R"(ENTRY main {
  x = c128[3,3] parameter(0)
  re = f64[3,3] real(x)
  im = f64[3,3] imag(x)
  ni = f64[3,3] negate(im)
  cx = c128[3,3] complex(re, ni)
  p = c128[3,3] dot(x, cx), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  i = s32[3,3] iota(), iota_dimension=0
  j = s32[3,3] iota(), iota_dimension=1
  e = pred[3,3] compare(i, j), direction=EQ
  f = c128[3,3] convert(e)
  a = c128[3,3] add(p, f)
  l = c128[3,3] cholesky(a), lower=true
  m = pred[3,3] compare(i, j), direction=GE
  z = c128[] constant((0, 0))
  zz = c128[3,3] broadcast(z), dimensions={}
  ROOT ll = c128[3,3] select(m, l, zz)
})"},
      {"triangular-solve", R"(ENTRY main {
  a = f64[3,3] parameter(0)
  b = f64[3,2] parameter(1)
  c = f64[2,3] parameter(2)
  p = f64[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  q = f64[2,3] triangular-solve(a, c), left_side=false, lower=false, transpose_a=TRANSPOSE
  r = f64[3,2] triangular-solve(a, b), left_side=true, lower=false, unit_diagonal=true, transpose_a=TRANSPOSE
  ROOT t = (f64[3,2], f64[2,3], f64[3,2]) tuple(p, q, r)
})",
       0.5, 1.5},
      {"complex triangular-solve", R"(ENTRY main {
  a = c128[3,3] parameter(0)
  b = c128[3,2] parameter(1)
  p = c128[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=ADJOINT
  q = c128[3,2] triangular-solve(a, b), left_side=true, lower=false, transpose_a=NO_TRANSPOSE
  ROOT t = (c128[3,2], c128[3,2]) tuple(p, q)
})",
       0.5, 1.5},
      {"fft", R"(ENTRY main {
  x = c128[2,3,4] parameter(0)
  y = f64[3,6] parameter(1)
  z = c128[3,4] parameter(2)
  a = c128[2,3,4] fft(x), fft_type=FFT, fft_length={3,4}
  b = c128[2,3,4] fft(x), fft_type=IFFT, fft_length={4}
  c = c128[3,4] fft(y), fft_type=RFFT, fft_length={3,6}
  d = f64[3,6] fft(z), fft_type=IRFFT, fft_length={3,6}
  e = f64[3,7] fft(z), fft_type=IRFFT, fft_length={7}
  ROOT t = (c128[2,3,4], c128[2,3,4], c128[3,4], f64[3,6], f64[3,7]) tuple(a, b, c, d, e)
})"},
  });
}

}  // namespace gshard
