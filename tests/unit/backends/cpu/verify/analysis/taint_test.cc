#include "backends/cpu/verify/analysis/taint.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "ir/computation.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

const Instruction& Named(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->name() == name) return *x;
    }
  }
  throw InternalError("no such instruction");
}

TEST_CASE("taint reaches what branches are given, and what they make themselves", "[cpu]") {
  auto parsed = ParseModule(SourceText::FromString("test.hlo", R"(HloModule m
doubled { a = f32[4] parameter(0) ROOT twice = f32[4] add(a, a) }
noisy { b = f32[4] parameter(0) zero = f32[] constant(0) one = f32[] constant(1)
  noise = f32[4] rng(zero, one), distribution=rng_uniform
  clean = f32[4] negate(b)
  ROOT sum = f32[4] add(clean, noise) }
ENTRY e { p = pred[] parameter(0) x = f32[4] parameter(1)
  zero.1 = f32[] constant(0) one.1 = f32[] constant(1)
  random = f32[4] rng(zero.1, one.1), distribution=rng_uniform
  ROOT chosen = f32[4] conditional(p, random, x), true_computation=doubled, false_computation=noisy
})"));
  REQUIRE(parsed);
  const Module& module = **parsed;
  const Taint random(module, IsRandomSource);
  CHECK(random.Of(Named(module, "twice")));  // made of what the branch is given
  CHECK(random.Of(Named(module, "noise")));
  CHECK(random.Of(Named(module, "sum")));
  CHECK_FALSE(random.Of(Named(module, "clean")));
  CHECK_FALSE(random.Of(Named(module, "x")));
  CHECK(random.OfOutput(0));
}

}  // namespace
}  // namespace gshard::cpu
