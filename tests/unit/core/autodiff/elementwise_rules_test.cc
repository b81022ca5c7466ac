// Every elementwise opcode that has a reverse rule differentiates: none is forgotten on the way
// from the table to its line, where it would have a derivative of zero.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "core/autodiff/gradient.h"
#include "core/autodiff/rules.h"
#include "ir/opcode.h"
#include "ir/parser.h"

namespace gshard {
namespace {

// y, made of x and z (f32[4]) by `opcode`: its type and the rest of its line.
std::string LineOf(Opcode opcode) {
  const std::string name(OpcodeName(opcode));
  switch (opcode) {
    case Opcode::kReducePrecision:
      return "y = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10";
    case Opcode::kStochasticConvert:
      return "bits = u32[4] constant({1, 2, 3, 4})\n  half = bf16[4] stochastic-convert(x, bits)\n"
             "  y = f32[4] convert(half)";
    case Opcode::kConvert:
      return "wide = f64[4] convert(x)\n  y = f32[4] convert(wide)";
    case Opcode::kComplex:
      return "c = c64[4] complex(x, z)\n  y = f32[4] real(c)";
    case Opcode::kImag:
      return "c = c64[4] complex(z, x)\n  y = f32[4] imag(c)";
    case Opcode::kSelect:
      return "p = pred[4] compare(x, z), direction=LT\n  y = f32[4] select(p, x, z)";
    case Opcode::kClamp:
      return "y = f32[4] clamp(z, x, z)";
    default:
      break;
  }
  const bool one = InfoOf(opcode).arity == 1;
  return "y = f32[4] " + name + (one ? "(x)" : "(x, z)");
}

}  // namespace

TEST_CASE("No elementwise opcode is without the derivative that the table promises") {
  int asked = 0;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const Opcode opcode = static_cast<Opcode>(i);
    if (!IsElementwise(opcode) || GradRuleFor(opcode).kind != GradKind::kRule) continue;
    CAPTURE(std::string(OpcodeName(opcode)));
    const std::string text =
        "HloModule m\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)"
        "\n  ROOT s = f32[] add(a, b)\n}\nENTRY e {\n  x = f32[4] parameter(0)"
        "\n  z = f32[4] parameter(1)\n  " +
        LineOf(opcode) +
        "\n  zero = f32[] constant(0)\n  ROOT loss = f32[] reduce(y, zero), "
        "dimensions={0}, to_apply=sum\n}\n";
    auto module = ParseModule(SourceText::FromString("test.hlo", text));
    REQUIRE(module);
    GradientOptions options;
    options.with_respect_to = {"x"};
    REQUIRE_NOTHROW(Differentiate(**module, options));
    ++asked;
  }
  CHECK(asked > 40);
}

}  // namespace gshard
