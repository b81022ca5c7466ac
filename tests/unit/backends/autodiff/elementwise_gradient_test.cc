// Elementwise opcodes, real and complex, against finite differences.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "core/autodiff/rules.h"
#include "ir/opcode.h"
#include "tests/gradient/finite_differences.h"

namespace gshard {
namespace {

struct Range {
  double low, high;
};

void Agrees(const std::string& text, Range range) {
  for (uint64_t seed : {1u, 2u}) {
    const GradientVerdict verdict =
        CheckGradient(text, {.seed = seed, .low = range.low, .high = range.high});
    INFO(text << verdict.why);
    CHECK(verdict.kind == GradientVerdict::Kind::kAgrees);
  }
}

std::string Unary(const std::string& opcode, const char* in, const char* out) {
  return fmt::format(
      "HloModule m\nENTRY main {{\n  x = {}[2,3] parameter(0)\n  ROOT y = {}[2,3] {}(x)\n}}\n", in,
      out, opcode);
}

std::string Binary(const std::string& opcode, const char* type) {
  return fmt::format(
      "HloModule m\nENTRY main {{\n  x = {0}[2,3] parameter(0)\n  y = {0}[2,3] parameter(1)\n"
      "  ROOT z = {0}[2,3] {1}(x, y)\n}}\n",
      type, opcode);
}

// Arguments between which each has a derivative.
const std::map<std::string, Range> kOfOneReal = {
    {"abs", {-2, 2}},
    {"negate", {-2, 2}},
    {"copy", {-2, 2}},
    {"exponential", {-2, 2}},
    {"log", {0.3, 3}},
    {"exponential-minus-one", {-2, 2}},
    {"log-plus-one", {-0.6, 2}},
    {"logistic", {-3, 3}},
    {"sqrt", {0.3, 3}},
    {"rsqrt", {0.3, 3}},
    {"cbrt", {0.3, 3}},
    {"sine", {-3, 3}},
    {"cosine", {-3, 3}},
    {"tan", {-1, 1}},
    {"tanh", {-2, 2}},
    {"sinh", {-2, 2}},
    {"cosh", {-2, 2}},
    {"asin", {-0.8, 0.8}},
    {"acos", {-0.8, 0.8}},
    {"asinh", {-2, 2}},
    {"acosh", {1.3, 3}},
    {"atanh", {-0.8, 0.8}},
    {"erf", {-2, 2}},
};
// Both parts between 0.3 and 1.2: away from branch cuts.
const std::set<std::string> kOfOneComplex = {
    "negate",       "copy",     "exponential", "log",   "exponential-minus-one",
    "log-plus-one", "logistic", "sqrt",        "rsqrt", "sine",
    "cosine",       "tan",      "tanh",        "sinh",  "cosh",
    "asin",         "acos",     "asinh",       "acosh", "atanh",
    "sign"};
const std::set<std::string> kOfComplexToReal = {"abs", "real", "imag"};
const std::set<std::string> kOfTwo = {"add",   "subtract", "multiply", "divide",   "power",
                                      "atan2", "maximum",  "minimum",  "remainder"};
const std::set<std::string> kOfTwoComplex = {"add", "subtract", "multiply", "divide", "power"};
// Their results have another type than their operands, or steps: tests of their own below.
const std::set<std::string> kApart = {
    "real", "imag", "convert", "sign", "complex", "reduce-precision", "stochastic-convert"};
// The shape rules take complex numbers, the emulator has no loop for them (docs/semantics.md).
const std::set<std::string> kNotOnComplex = {"atan2", "maximum", "minimum", "remainder"};

// Has an opcode of `arity` that takes `type` a line in one of the tables of this file?
void ExpectLine(const OpcodeInfo& info, OperandType type, bool has_line) {
  const std::string name(info.text);
  if ((info.types & type) == 0 && info.types != kAnyType) return;
  if (type == kComplexType && kNotOnComplex.count(name) != 0) return;
  INFO(name << " has a reverse rule: it needs a line in " << __FILE__);
  CHECK((has_line || kApart.count(name) != 0));
}

}  // namespace

// A new row of ir/opcodes.def with a rule in core/autodiff/rule_table.cc is asked for here.
TEST_CASE("every elementwise rule is compared with finite differences", "[autodiff]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpcodeInfo& info = InfoOf(opcode);
    if (!IsElementwise(opcode) || GradRuleFor(opcode).kind != GradKind::kRule) continue;
    const std::string name(info.text);
    if (info.arity == 1) {
      ExpectLine(info, kFloatType, kOfOneReal.count(name) != 0);
      ExpectLine(info, kComplexType, kOfOneComplex.count(name) + kOfComplexToReal.count(name) != 0);
    } else if (info.arity == 2) {
      ExpectLine(info, kFloatType, kOfTwo.count(name) != 0);
      ExpectLine(info, kComplexType, kOfTwoComplex.count(name) != 0);
    }
  }
}

TEST_CASE("functions of one real number", "[autodiff]") {
  for (const auto& [opcode, range] : kOfOneReal) Agrees(Unary(opcode, "f64", "f64"), range);
}

TEST_CASE("functions of one complex number", "[autodiff]") {
  for (const std::string& opcode : kOfOneComplex) {
    Agrees(Unary(opcode, "c128", "c128"), {0.3, 1.2});
  }
  for (const std::string& opcode : kOfComplexToReal) {
    Agrees(Unary(opcode, "c128", "f64"), {0.3, 1});
  }
  Agrees(Unary("convert", "f64", "c128"), {-2, 2});
}

TEST_CASE("functions of two numbers", "[autodiff]") {
  for (const std::string& opcode : kOfTwo) Agrees(Binary(opcode, "f64"), {0.4, 2});
  for (const std::string& opcode : kOfTwoComplex) Agrees(Binary(opcode, "c128"), {0.4, 1.5});
  Agrees(
      "HloModule m\nENTRY main {\n x = f64[3] parameter(0)\n y = f64[3] parameter(1)\n"
      " ROOT z = c128[3] complex(x, y)\n}\n",
      {-1, 1});
  Agrees(
      "HloModule m\nENTRY main {\n x = f64[4] parameter(0)\n c = f64[4] constant({2, 0.5, 3, -1})\n"
      " ROOT z = f64[4] power(x, c)\n}\n",
      {0.4, 2});
}

TEST_CASE("choices", "[autodiff]") {
  Agrees(R"(HloModule m
ENTRY main {
  p = pred[4] parameter(0)
  x = f64[4] parameter(1)
  y = f64[4] parameter(2)
  s = f64[4] select(p, x, y)
  low = f64[] parameter(3)
  high = f64[4] parameter(4)
  wide = f64[4] broadcast(low), dimensions={}
  a = f64[4] clamp(wide, s, high)
  zero = f64[] constant(0)
  b = f64[4] clamp(zero, x, low)
  ROOT r = (f64[4], f64[4]) tuple(a, b)
})",
         {-2, 2});
}

TEST_CASE("what a select leaves out adds nothing, however steep it is there", "[autodiff]") {
  // Of the branches that are not taken, logarithms and roots of negative numbers are no numbers,
  // and so are products with them; both branches and the inner select share x and its square.
  Agrees(R"(HloModule m
ENTRY main {
  z = f64[8] parameter(0)
  y = f64[8] parameter(1)
  zero = f64[] constant(0)
  zeros = f64[8] broadcast(zero), dimensions={}
  half = f64[] constant(1.5)
  halves = f64[8] broadcast(half), dimensions={}
  sign = f64[8] sign(z)
  x = f64[8] add(z, sign)
  is_positive = pred[8] compare(x, zeros), direction=GT
  is_large = pred[8] compare(x, halves), direction=GT
  l = f64[8] log(x)
  root = f64[8] sqrt(x)
  square = f64[8] multiply(l, root)
  a = f64[8] divide(root, l)
  b = f64[8] multiply(square, y)
  inner = f64[8] select(is_large, a, b)
  c = f64[8] multiply(x, y)
  outer = f64[8] select(is_positive, inner, c)
  opposite = f64[8] negate(x)
  power = f64[8] power(opposite, y)
  ROOT r = f64[8] select(is_positive, outer, power)
})",
         {-0.9, 0.9});
}

TEST_CASE("one number chooses the branches of arrays of several sizes", "[autodiff]") {
  Agrees(R"(HloModule m
ENTRY main {
  z = f64[4] parameter(0)
  y = f64[8] parameter(1)
  p = pred[] parameter(2)
  l = f64[4] log(z)
  k = f64[8] log(y)
  a = f64[4] select(p, l, z)
  b = f64[8] select(p, k, y)
  ROOT r = (f64[4], f64[8]) tuple(a, b)
})",
         {0.3, 3});
}

TEST_CASE("map and what is no function", "[autodiff]") {
  Agrees(R"(HloModule m
f { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] multiply(a, b) d = f64[] sine(a)
    two = f64[] constant(2) e = f64[] add(d, two) ROOT r = f64[] multiply(c, e) }
ENTRY main {
  x = f64[2,3] parameter(0)
  y = f64[2,3] parameter(1)
  z = f64[2,3] map(x, y), dimensions={0,1}, to_apply=f
  n = f64[2,3] round-nearest-even(x)
  k = f64[2,3] floor(y)
  s = f64[2,3] sign(x)
  ss = f64[2,3] multiply(s, y)
  q = f64[2,3] add(z, n)
  w = f64[2,3] add(q, ss)
  ROOT r = f64[2,3] add(w, k)
})",
         {-2, 2});
}

TEST_CASE("rounding to fewer bits is the identity to derivatives", "[autodiff]") {
  // Finite differences would see steps: the gradient is that of the identity.
  Agrees(R"(HloModule m
ENTRY main {
  x = f64[3] parameter(0)
  ROOT y = f64[3] reduce-precision(x), exponent_bits=11, mantissa_bits=52
})",
         {-2, 2});
}

}  // namespace gshard
