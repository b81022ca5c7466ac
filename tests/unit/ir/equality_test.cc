// Which instructions and computations say the same.
#include "ir/equality.h"

#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "ir/module.h"
#include "ir/parser.h"

namespace gshard {
namespace {

// The last two instructions before the root of a computation with operands x: f32[4,6], y: f32[].
bool SameLines(const std::string& first, const std::string& second) {
  std::string text = R"(HloModule m
sum (a: f32[], b: f32[]) -> f32[] {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
other_sum (c: f32[], d: f32[]) -> f32[] {
  c = f32[] parameter(0)
  d = f32[] parameter(1)
  ROOT s = f32[] add(c, d)
}
product (e: f32[], f: f32[]) -> f32[] {
  e = f32[] parameter(0)
  f = f32[] parameter(1)
  ROOT p = f32[] multiply(e, f)
}
swapped (g: f32[], h: f32[]) -> f32[] {
  g = f32[] parameter(0)
  h = f32[] parameter(1)
  ROOT q = f32[] add(h, g)
}
ENTRY main (x: f32[4,6], y: f32[]) -> f32[] {
  x = f32[4,6] parameter(0)
  y = f32[] parameter(1)
  one = )" + first +
                     "\n  two = " + second + R"(
  ROOT root = f32[] negate(y)
})";
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  if (!module.has_value()) FAIL(Render(module.error()));
  auto list = (*module)->entry()->instructions();
  return SameOperation(*list[2], *list[3]);
}

TEST_CASE("Operations are the same if their attributes are", "[ir]") {
  CHECK(SameLines("f32[4,6] tanh(x)", "f32[4,6] tanh(x), metadata={op_name=\"b\"}"));
  CHECK_FALSE(SameLines("f32[4,6] tanh(x)", "f32[4,6] sine(x)"));
  CHECK_FALSE(
      SameLines("pred[] compare(y, y), direction=LT", "pred[] compare(y, y), direction=LE"));
  CHECK(SameLines("f32[2,3] slice(x), slice={[0:2], [0:3]}",
                  "f32[2,3] slice(x), slice={[0:2:1], [0:3:1]}"));
  CHECK_FALSE(SameLines("f32[2,3] slice(x), slice={[0:2], [0:3]}",
                        "f32[2,3] slice(x), slice={[1:3], [0:3]}"));
  CHECK_FALSE(
      SameLines("f32[5,6] pad(x, y), padding=0_1x0_0", "f32[5,6] pad(x, y), padding=1_0x0_0"));
  CHECK_FALSE(SameLines("f32[4,4] iota(), iota_dimension=0", "f32[4,4] iota(), iota_dimension=1"));
  CHECK_FALSE(SameLines("f32[4,6] tanh(x), frontend_attributes={a=\"1\"}", "f32[4,6] tanh(x)"));
}

TEST_CASE("Collectives are the same if their groups are, as they are written", "[ir]") {
  const auto same = [](const std::string& first, const std::string& second) {
    const std::string sum = "f32[4,6] all-reduce(x), to_apply=sum, replica_groups=";
    return SameLines(sum + first, sum + second);
  };
  CHECK(same("{}", "{}"));
  CHECK(same("{{0,1},{2,3}}", "{{0,1},{2,3}}"));
  CHECK(same("[2,2]<=[4]", "[2,2]<=[4]"));
  CHECK_FALSE(same("{}", "{{0,1,2,3}}"));
  CHECK_FALSE(same("{{0,1,2,3}}", "{}"));
  CHECK_FALSE(same("{}", "[1,4]<=[4]"));
  CHECK_FALSE(same("{{0,1},{2,3}}", "{{0,2},{1,3}}"));
  CHECK_FALSE(same("[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)"));
}

TEST_CASE("Constants are the same if their elements are, bit by bit", "[ir]") {
  CHECK(SameLines("f32[2] constant({1, 2})", "f32[2] constant({1, 2})"));
  CHECK_FALSE(SameLines("f32[2] constant({1, 2})", "f32[2] constant({1, 3})"));
  CHECK_FALSE(SameLines("f32[] constant(0)", "f32[] constant(-0.0)"));
  CHECK_FALSE(SameLines("f32[] constant(0)", "s32[] constant(0)"));
  // Values that were not printed may be any.
  CHECK_FALSE(SameLines("f32[2] constant({...})", "f32[2] constant({...})"));
}

TEST_CASE("Called computations count by what they do", "[ir]") {
  auto reduce = [](const std::string& computation, const std::string& dims = "0,1") {
    return "f32[] reduce(x, y), dimensions={" + dims + "}, to_apply=" + computation;
  };
  CHECK(SameLines(reduce("sum"), reduce("sum")));
  CHECK(SameLines(reduce("sum"), reduce("other_sum")));
  CHECK_FALSE(SameLines(reduce("sum"), reduce("product")));
  CHECK_FALSE(SameLines(reduce("sum"), reduce("swapped")));
}

TEST_CASE("The same work in any order counts, whatever notes it carries", "[ir]") {
  auto module = ParseModule(SourceText::FromString("m", R"(HloModule m
a {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x), frontend_attributes={gshard.cause="for s.1"}
  z = f32[4] sine(x)
  ROOT s = f32[4] subtract(y, z)
}
b {
  x.1 = f32[4] parameter(0)
  z.1 = f32[4] sine(x.1)
  y.1 = f32[4] tanh(x.1), frontend_attributes={gshard.cause="for s.2"}
  ROOT s.1 = f32[4] subtract(y.1, z.1)
}
c {
  x.2 = f32[4] parameter(0)
  z.2 = f32[4] sine(x.2)
  y.2 = f32[4] tanh(x.2)
  ROOT s.2 = f32[4] subtract(z.2, y.2)
}
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] call(p), to_apply=a
  r = f32[4] call(q), to_apply=b
  ROOT t = f32[4] call(r), to_apply=c
}
)"));
  REQUIRE(module);
  const std::span<Computation* const> of = (*module)->computations();
  CHECK(SameComputation(*of[0], *of[1]));
  CHECK_FALSE(SameComputation(*of[0], *of[2]));
}

TEST_CASE("The same work counts whether or not a row-major layout is written", "[ir]") {
  auto module = ParseModule(SourceText::FromString("m", R"(HloModule m
a {
  x = f32[4,2] parameter(0)
  y = f32[4,2]{1,0} tanh(x)
  ROOT t = (f32[4,2]{1,0}) tuple(y)
}
b {
  x.1 = f32[4,2] parameter(0)
  y.1 = f32[4,2] tanh(x.1)
  ROOT t.1 = (f32[4,2]) tuple(y.1)
}
c {
  x.2 = f32[4,2] parameter(0)
  y.2 = f32[4,2]{0,1} tanh(x.2)
  ROOT t.2 = (f32[4,2]{0,1}) tuple(y.2)
}
ENTRY e {
  p = f32[4,2] parameter(0)
  q = (f32[4,2]) call(p), to_apply=a
  r = (f32[4,2]) call(p), to_apply=b
  s = (f32[4,2]{0,1}) call(p), to_apply=c
  ROOT all = ((f32[4,2]), (f32[4,2]), (f32[4,2]{0,1})) tuple(q, r, s)
}
)"));
  REQUIRE(module);
  const std::span<Computation* const> of = (*module)->computations();
  CHECK(SameComputation(*of[0], *of[1]));
  CHECK_FALSE(SameComputation(*of[0], *of[2]));
}

}  // namespace
}  // namespace gshard
