#include "core/propagation/canonicalizer.h"

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

TEST_CASE("what changes nothing is left out of HLO text", "[propagation]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  x = f32[12] parameter(0)
  col = f32[12,1] reshape(x)
  same = f32[12,1] broadcast(col), dimensions={0,1}
  back = f32[12] reshape(same)
  wide = f32[12,16] broadcast(back), dimensions={0}
  kept = f32[12] reshape(col), sharding={replicated}
  unread = f32[12] reshape(col)
  ROOT r = (f32[12,16], f32[12], f32[12,1]) tuple(wide, kept, col)
})");
  CHECK(Canonicalize(*m));
  CHECK(Named(*m, "wide")->operand(0) == Named(*m, "x"));
  CHECK(Named(*m, "kept")->operand(0) == Named(*m, "col"));  // its sharding is the user's
  const std::string text = PrintModule(*m);
  CHECK_THAT(text, !Catch::Contains("%same") && !Catch::Contains("%back"));
  CHECK_FALSE(Canonicalize(*m));
}

TEST_CASE("equal constants of a computation are one, iotas and computed values are not",
          "[propagation]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  a = f32[] constant(2)
  b = f32[] constant(2)
  c = f32[] constant(3)
  wide_a = f32[8] broadcast(a), dimensions={}
  wide_b = f32[8] broadcast(b), dimensions={}
  wide_c = f32[8] broadcast(c), dimensions={}
  fixed = f32[8] broadcast(a), dimensions={}, sharding={replicated}
  l = f32[2] constant({1, 2})
  k = f32[2] constant({1, 2})
  i = f32[8] iota(), iota_dimension=0
  j = f32[8] iota(), iota_dimension=0
  s = f32[8] sine(x)
  t = f32[8] sine(x)
  ROOT r = (f32[8], f32[8], f32[8], f32[8], f32[2], f32[2], f32[8], f32[8], f32[8], f32[8]) tuple(wide_a, wide_b, wide_c, fixed, l, k, i, j, s, t)
})");
  CHECK(Canonicalize(*m));
  const Instruction* r = m->entry()->root();
  CHECK(r->operand(0) == r->operand(1));
  CHECK(r->operand(0) != r->operand(2));
  CHECK(r->operand(0) != r->operand(3));
  CHECK(r->operand(4) == r->operand(5));
  CHECK(r->operand(6) != r->operand(7));
  CHECK(r->operand(8) != r->operand(9));
}

TEST_CASE("control dependencies name instructions, which stay", "[propagation]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  first = f32[8] reshape(x)
  second = f32[8] sine(x), control-predecessors={first}
  third = f32[8] reshape(second), control-predecessors={first}
  ROOT r = (f32[8], f32[8]) tuple(first, third)
})");
  CHECK_FALSE(Canonicalize(*m));
}

}  // namespace
}  // namespace gshard
