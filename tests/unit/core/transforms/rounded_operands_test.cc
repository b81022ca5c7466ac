#include "core/transforms/tpu/rounded_operands.h"

#include "ir/traversal.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// What becomes of a program, as text that the parser takes and that a second run leaves alone.
std::string Rounded(const std::string& text) {
  auto module = Parsed(text);
  RoundOperands(*module);
  auto again = Parsed(PrintModule(*module));
  CHECK_FALSE(RoundOperands(*again));
  return PrintModule(*again);
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A loop over 4 layers of dot(x, w[i]), with `row` in the place of w[i]'s reader.
std::string Layers(const std::string& more = "", const std::string& dot = "") {
  return R"(HloModule m
body {
  s = (s32[], f32[8,64], f32[4,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,64] get-tuple-element(s), index=1
  w = f32[4,64,64] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  slice = f32[1,64,64] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,64,64}
  row = f32[64,64] reshape(slice)
  y = f32[8,64] dot(x, row), lhs_contracting_dims={1}, rhs_contracting_dims={0})" +
         dot + R"(
  z = f32[8,64] tanh(y)
)" + (more.empty() ? "  r = f32[8,64] add(x, z)\n" : more) +
         R"(  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,64], f32[4,64,64]) tuple(j, r, w)
}
more {
  s = (s32[], f32[8,64], f32[4,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8,64] parameter(0)
  weights = f32[4,64,64] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,64], f32[4,64,64]) tuple(zero, x, weights)
  loop = (s32[], f32[8,64], f32[4,64,64]) while(init), condition=more, body=body
  ROOT r = f32[8,64] get-tuple-element(loop), index=1
})";
}

TEST_CASE("an algorithm may round, too", "[rounding]") {
  CHECK(Has(Rounded(Layers("", ", algorithm=dot_bf16_bf16_f32")), "bf16[4,64,64] convert("));
  auto exact = Parsed(Layers("", ", algorithm=dot_f32_f32_f32"));
  CHECK_FALSE(RoundOperands(*exact));
}

TEST_CASE("what only products read is rounded where it is made", "[rounding]") {
  const std::string text = Rounded(R"(HloModule m
ENTRY e {
  x = f32[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  y = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[8,64] tanh(y)
  t = f32[64,8] transpose(h), dimensions={1,0}
  z = f32[8,64] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[64,64] dot(t, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[8,64], f32[64,64]) tuple(z, u)
})");
  CHECK(Has(text, "%h.bf16 = bf16[8,64] convert(%h)"));
  CHECK(Has(text, "%t = bf16[64,8] transpose(%h.bf16)"));
  CHECK(Has(text, "dot(%h.bf16, %w)"));  // arguments are rounded as they are read
  CHECK(Has(text, "dot(%t, %z)"));       // the result is f32
}

TEST_CASE("a value that somebody reads whole stays", "[rounding]") {
  const std::string text = R"(HloModule m
ENTRY e {
  x = f32[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  h = f32[8,64] tanh(x)
  g = f32[8,64] multiply(h, x)
  y = f32[8,64] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT z = f32[8,64] add(y, g)
})";
  CHECK_FALSE(Has(Rounded(text), "bf16"));
}

TEST_CASE("a loop's stack is cast before it, once for all its readers", "[rounding]") {
  const std::string text = Rounded(Layers());
  CHECK(Has(text, "%weights.bf16 = bf16[4,64,64] convert(%weights)"));
  CHECK(Has(text, "%slice = bf16[1,64,64] dynamic-slice(%w, "));
  CHECK(Has(text, "(s32[], f32[8,64], bf16[4,64,64]) while("));
}

TEST_CASE("other precisions, other readers: nothing is rounded", "[rounding]") {
  CHECK_FALSE(Has(Rounded(Layers("", ", operand_precision={highest,highest}")), "bf16"));
  const std::string sum = R"(  ws = f32[1,64,64] multiply(slice, slice)
  wr = f32[64,64] reshape(ws)
  ww = f32[8,64] slice(wr), slice={[0:8], [0:64]}
  r = f32[8,64] add(ww, z)
)";
  CHECK_FALSE(Has(Rounded(Layers(sum)), "weights.bf16"));
}

TEST_CASE("casts move out of conditionals and outer loops", "[rounding]") {
  const std::string text = Rounded(R"(HloModule m
inner {
  s = (s32[], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,64] get-tuple-element(s), index=1
  w = f32[64,64] get-tuple-element(s), index=2
  y = f32[8,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,64], f32[64,64]) tuple(j, y, w)
}
less {
  s = (s32[], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
works {
  s = (f32[8,64], f32[64,64]) parameter(0)
  x = f32[8,64] get-tuple-element(s), index=0
  w = f32[64,64] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  init = (s32[], f32[8,64], f32[64,64]) tuple(zero, x, w)
  loop = (s32[], f32[8,64], f32[64,64]) while(init), condition=less, body=inner
  ROOT r = f32[8,64] get-tuple-element(loop), index=1
}
idles {
  ROOT x = f32[8,64] parameter(0)
}
outer {
  s = (s32[], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,64] get-tuple-element(s), index=1
  w = f32[64,64] get-tuple-element(s), index=2
  two = s32[] constant(2)
  is = pred[] compare(i, two), direction=LT
  both = (f32[8,64], f32[64,64]) tuple(x, w)
  y = f32[8,64] conditional(is, both, x), true_computation=works, false_computation=idles
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,64], f32[64,64]) tuple(j, y, w)
}
few {
  s = (s32[], f32[8,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8,64] parameter(0)
  kernel = f32[64,64] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,64], f32[64,64]) tuple(zero, x, kernel)
  loop = (s32[], f32[8,64], f32[64,64]) while(init), condition=few, body=outer
  ROOT r = f32[8,64] get-tuple-element(loop), index=1
})");
  CHECK(Has(text, "%kernel.bf16 = bf16[64,64] convert(%kernel)"));
  CHECK(Has(text, "(f32[8,64], bf16[64,64]) tuple("));
  // The entry's alone.
  CHECK(text.find(" convert(") == text.rfind(" convert("));
}

TEST_CASE("a stack that one loop fills for another is of bf16", "[rounding]") {
  const std::string text = Rounded(R"(HloModule m
fill {
  s = (s32[], f32[8,64], f32[4,8,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,64] get-tuple-element(s), index=1
  saved = f32[4,8,64] get-tuple-element(s), index=2
  y = f32[8,64] tanh(x)
  row = f32[1,8,64] reshape(y)
  zero = s32[] constant(0)
  more = f32[4,8,64] dynamic-update-slice(saved, row, i, zero, zero)
  z = f32[8,64] sine(x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[8,64], f32[4,8,64]) tuple(j, z, more)
}
less {
  s = (s32[], f32[8,64], f32[4,8,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  stack = f32[4,8,64] broadcast(none), dimensions={}
  init = (s32[], f32[8,64], f32[4,8,64]) tuple(zero, x, stack)
  loop = (s32[], f32[8,64], f32[4,8,64]) while(init), condition=less, body=fill
  saved = f32[4,8,64] get-tuple-element(loop), index=2
  ROOT r = f32[4,8,64] dot(saved, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
})");
  CHECK(Has(text, "%stack = bf16[4,8,64] broadcast("));
  CHECK(Has(text, "%more = bf16[4,8,64] dynamic-update-slice("));
  CHECK(Has(text, "%y.bf16 = bf16[8,64] convert(%y)"));
}

TEST_CASE("the text's own casts move too, and what they widened is read narrow", "[rounding]") {
  const std::string own = R"(  c = bf16[64,64] convert(row)
  xc = bf16[8,64] convert(x)
  d = bf16[8,64] dot(xc, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[8,64] convert(d)
)";
  const std::string text = Rounded(Layers(own));
  CHECK(Has(text, "%weights.bf16 = bf16[4,64,64] convert(%weights)"));
  CHECK(Has(Rounded(R"(HloModule m
ENTRY e {
  x = bf16[8,64] parameter(0)
  w = f32[64,64] parameter(1)
  wide = f32[8,64] convert(x)
  ROOT y = f32[8,64] dot(wide, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"),
            "dot(%x, %w)"));
}

TEST_CASE("shared computations and tuples in tuples are left alone", "[rounding]") {
  CHECK_FALSE(Has(Rounded(R"(HloModule m
branch {
  x = f32[8,8] parameter(0)
  ROOT y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  p = pred[] parameter(0)
  x = f32[8,8] parameter(1)
  pair = (f32[8,8], pred[]) tuple(x, p)
  nest = ((f32[8,8], pred[]), f32[8,8]) tuple(pair, x)
  inner = (f32[8,8], pred[]) get-tuple-element(nest), index=0
  z = f32[8,8] get-tuple-element(inner), index=0
  s = f32[8,8] dot(z, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[8,8] conditional(p, x, x), true_computation=branch, false_computation=branch
  ROOT r = f32[8,8] add(a, s)
})"),
                  "bf16"));
}

}  // namespace
}  // namespace gshard
