#include "backends/cpu/verify/analysis/error_scale.h"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "ir/computation.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

const Instruction& Named(const Module& module, std::string_view name) {
  for (const Instruction* x : module.entry()->instructions()) {
    if (x->name() == name) return *x;
  }
  throw InternalError("no such instruction");
}

std::unique_ptr<Module> ParseText(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  return std::move(*module);
}

TEST_CASE("a difference has the scale of what cancelled", "[cpu]") {
  const auto module = ParseText(
      "HloModule m\nENTRY e { x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n ROOT d = f32[4] "
      "subtract(x, y) }\n");
  ErrorScale scale(*module);
  CHECK(scale.Of(Named(*module, "x"), 1000) == 1000);
  CHECK(scale.Of(Named(*module, "y"), 999) == 999);
  CHECK(scale.Of(Named(*module, "d"), 0.5) == 1000);
}

TEST_CASE("scales do not grow with every layer where errors do not", "[cpu]") {
  std::string text =
      "HloModule m\nENTRY e { w = f32[4,4] parameter(0)\n x0 = f32[4,4] parameter(1)\n";
  constexpr int kLayers = 50;
  for (int i = 1; i <= kLayers; ++i) {
    text += fmt::format(
        "{}x{} = f32[4,4] dot(x{}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n",
        i == kLayers ? "ROOT " : "", i, i - 1);
  }
  const auto module = ParseText(text + "}\n");
  constexpr double kTolerance = 1e-4;
  for (const bool observed : {false, true}) {
    ErrorScale scale(*module);
    scale.Of(Named(*module, "w"), 1);
    double last = 0;
    for (int i = 0; i <= kLayers; ++i) {
      const Instruction& x = Named(*module, fmt::format("x{}", i));
      last = scale.Of(x, 1);
      if (observed) scale.Observe(x, 1e-7, kTolerance);
    }
    CHECK((last > 1e3) == !observed);
    CHECK((last < 10) == observed);
  }
}

TEST_CASE("observed errors go on to what follows", "[cpu]") {
  const auto module = ParseText(
      "HloModule m\nENTRY e { x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n d = f32[4] "
      "subtract(x, y)\n ROOT s = f32[4] multiply(d, d) }\n");
  ErrorScale scale(*module);
  scale.Of(Named(*module, "x"), 1000);
  scale.Of(Named(*module, "y"), 999);
  const Instruction& difference = Named(*module, "d");
  CHECK(scale.Of(difference, 1) == 1000);
  scale.Observe(difference, 1e-3, 1e-4);
  CHECK(scale.Of(Named(*module, "s"), 1) == 160);
}

TEST_CASE("terms made of parameters count once these are known", "[cpu]") {
  const auto module = ParseText(
      "HloModule m\nENTRY e { a = f32[2] parameter(0)\n r = f32[2] parameter(1)\n ROOT g = f32[] "
      "dot(r, a), lhs_contracting_dims={0}, rhs_contracting_dims={0} }\n");
  ErrorScale scale(*module);
  const Instruction& sum = Named(*module, "g");
  CHECK(scale.Of(sum, 1e-6) == 1e-6);
  scale.SetParameters(std::array{2.0, 3.0});
  CHECK(scale.Of(sum, 1e-6) > 6);
}

TEST_CASE("a difference of sums over what a loop has left has the scale of these", "[cpu]") {
  const auto module = ParseText(R"(HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
condition { c = (f32[4], f32[4]) parameter(0)
  ROOT p = pred[] constant(false) }
body { b = (f32[4], f32[4]) parameter(0)
  ROOT r = (f32[4], f32[4]) copy(b) }
ENTRY e { v = f32[4] parameter(0)
  w = f32[4] parameter(1)
  vx = f32[4] exponential(v)
  wx = f32[4] exponential(w)
  t = (f32[4], f32[4]) tuple(vx, wx)
  l = (f32[4], f32[4]) while(t), condition=condition, body=body
  vl = f32[4] get-tuple-element(l), index=0
  wl = f32[4] get-tuple-element(l), index=1
  zero = f32[] constant(0)
  vs = f32[] reduce(vl, zero), dimensions={0}, to_apply=add
  ws = f32[] reduce(wl, zero), dimensions={0}, to_apply=add
  ROOT d = f32[] subtract(vs, ws) }
)");
  ErrorScale scale(*module);
  scale.Of(Named(*module, "vx"), 1);
  scale.Of(Named(*module, "wx"), 1);
  CHECK(scale.Of(Named(*module, "d"), 1e-9) >= 1);
}

TEST_CASE("what follows from a pick has its own scale", "[cpu]") {
  const auto module = ParseText(
      "HloModule m\nENTRY e { x = f32[4] parameter(0)\n small = f32[4] parameter(1)\n n = s32[4] "
      "convert(x)\n f = f32[4] convert(n)\n p = pred[4] compare(x, small), direction=GT\n ROOT s = "
      "f32[4] select(p, small, small) }\n");
  ErrorScale scale(*module);
  scale.Of(Named(*module, "x"), 1e6);
  scale.Of(Named(*module, "small"), 1e-3);
  scale.Of(Named(*module, "n"), 1);
  CHECK(scale.Of(Named(*module, "f"), 3) == 3);
  scale.Of(Named(*module, "p"), 1);
  CHECK(scale.Of(Named(*module, "s"), 1e-3) == 1e-3);
}

}  // namespace
}  // namespace gshard::cpu
