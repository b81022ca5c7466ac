// Which arguments of a program have to be positive for its roots and logarithms.
#include "backends/cpu/io/positive_inputs.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/parser.h"

namespace gshard::cpu {
namespace {

std::vector<int64_t> PositiveOf(const std::string& text) {
  const auto module = ParseModule(SourceText::FromString("test", "HloModule m\n" + text));
  REQUIRE(module);
  return FindPositiveInputs(**module);
}

}  // namespace

TEST_CASE("second moments are positive, gradients and weights are of either sign", "[cpu]") {
  CHECK(PositiveOf(R"(
ENTRY adam {
  w = f32[4,4] parameter(0)
  m = f32[4,4] parameter(1)
  v = f32[4,4] parameter(2)
  g = bf16[4,4] parameter(3)
  beta = f32[] constant(0.999)
  betas = f32[4,4] broadcast(beta), dimensions={}
  kept = f32[4,4] multiply(v, betas)
  wide = f32[4,4] convert(g)
  wide2 = f32[4,4] convert(g)
  square = f32[4,4] multiply(wide, wide2)
  new_v = f32[4,4] add(kept, square)
  root = f32[4,4] sqrt(new_v)
  step = f32[4,4] divide(m, root)
  new_w = f32[4,4] subtract(w, step)
  ROOT out = (f32[4,4], f32[4,4]) tuple(new_w, new_v)
})") == std::vector<int64_t>{2});
}

TEST_CASE("arguments of roots are followed through calls, loops, branches and tuples", "[cpu]") {
  CHECK(PositiveOf(R"(
half { p = f32[4] parameter(0)  ROOT r = f32[4] rsqrt(p) }
other { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }
cond { s = (f32[4], f32[4]) parameter(0)  ROOT c = pred[] constant(false) }
body {
  s = (f32[4], f32[4]) parameter(0)
  a = f32[4] get-tuple-element(s), index=0
  b = f32[4] get-tuple-element(s), index=1
  l = f32[4] log(b)
  ROOT t = (f32[4], f32[4]) tuple(l, b)
}
ENTRY e {
  p = (f32[4], (f32[4], f32[4])) parameter(0)
  q = s32[] parameter(1)
  t = (f32[4], f32[4]) get-tuple-element(p), index=1
  w = (f32[4], f32[4]) while(t), condition=cond, body=body
  a = f32[4] get-tuple-element(p), index=0
  ROOT c = f32[4] conditional(q, a, a), branch_computations={half, other}
})") == std::vector<int64_t>{0, 2});
}

TEST_CASE("what is positive by itself or of no root is of either sign", "[cpu]") {
  CHECK(PositiveOf(R"(
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  z = f32[4] parameter(2)
  u = f32[4] parameter(3)
  two = f32[] constant(2)
  twos = f32[4] broadcast(two), dimensions={}
  third = f32[] constant(0.33)
  thirds = f32[4] broadcast(third), dimensions={}
  square = f32[4] power(x, twos)
  exponential = f32[4] exponential(y)
  sum = f32[4] add(square, exponential)
  l = f32[4] log(sum)
  difference = f32[4] subtract(z, y)
  s = f32[4] sqrt(difference)
  p = f32[4] power(u, thirds)
  ROOT out = (f32[4], f32[4], f32[4]) tuple(l, s, p)
})") == std::vector<int64_t>{3});
}

}  // namespace gshard::cpu
