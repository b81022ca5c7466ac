// Elementwise kernels against the reference evaluator, over all types and special values.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {
namespace {

// Of few bits: what is rounded to it is off by one unit at most.
bool IsTiny(const std::string& type) {
  return std::find(kTinyFloats.begin(), kTinyFloats.end(), type) != kTinyFloats.end();
}

}  // namespace

TEST_CASE("random unary operations", "[kernels][reference]") {
  const auto run = [](const std::string& opcode, const std::vector<std::string>& types,
                      double ulps) {
    for (const std::string& type : types) {
      RunCases(2, [&](Dice& dice) {
        const Index dims = {dice.Roll(1, 7), dice.Roll(1, 40)};
        Case test;
        test.parameters = {ShapeText(type, dims)};
        test.body = fmt::format("  ROOT r = {} {}(p0)", ShapeText(type, dims), opcode);
        test.special_values = true;
        test.ulps = IsTiny(type) ? std::min(ulps, 1.0) : ulps;
        return test;
      });
    }
  };
  const auto real = Joined({kFloats, kTinyFloats});
  for (const std::string opcode : {"floor", "ceil", "round-nearest-afz", "round-nearest-even"}) {
    run(opcode, real, 0);
  }
  for (const std::string opcode : {"abs", "negate", "sign"}) {
    run(opcode, real, 0);
    run(opcode, {"s32", "s8", "s16", "s64", "s4", "s2", "s1"}, 0);
  }
  run("negate", kComplexes, 0);
  run("sign", kComplexes, 4);
  run("sqrt", real, 0);
  for (const std::string opcode :
       {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt", "cbrt",
        "sine", "cosine", "tan", "tanh", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh",
        "erf"}) {
    run(opcode, real, 8);
  }
  for (const std::string opcode : {"exponential", "exponential-minus-one", "log", "log-plus-one",
                                   "logistic", "sqrt", "rsqrt", "sine", "cosine", "tan", "tanh",
                                   "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh"}) {
    run(opcode, kComplexes, 64);
  }
  for (const std::string opcode : {"not", "popcnt", "count-leading-zeros"})
    run(opcode, kIntegers, 0);
  run("not", {"pred"}, 0);
  run("copy", kAll, 0);
}

TEST_CASE("random binary operations", "[kernels][reference]") {
  const auto run = [](const std::string& opcode, const std::vector<std::string>& types,
                      double ulps) {
    for (const std::string& type : types) {
      RunCases(2, [&](Dice& dice) {
        const Index dims = {dice.Roll(1, 7), dice.Roll(1, 40)};
        Case test;
        test.parameters = {ShapeText(type, dims), ShapeText(type, dims)};
        test.body = fmt::format("  ROOT r = {} {}(p0, p1)", ShapeText(type, dims), opcode);
        test.special_values = true;
        test.ulps = IsTiny(type) ? std::min(ulps, 1.0) : ulps;
        return test;
      });
    }
  };
  for (const std::string opcode :
       {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"}) {
    run(opcode, Joined({kFloats, kTinyFloats}), 0);
    run(opcode, kIntegers, 0);
  }
  for (const std::string opcode : {"add", "subtract"}) run(opcode, kComplexes, 0);
  for (const std::string opcode : {"multiply", "divide"}) run(opcode, kComplexes, 8);
  for (const std::string opcode : {"and", "or", "xor", "shift-left", "shift-right-logical",
                                   "shift-right-arithmetic", "power", "mulhi"}) {
    run(opcode, kIntegers, 0);
  }
  for (const std::string opcode : {"and", "or", "xor", "add", "multiply", "maximum", "minimum"}) {
    run(opcode, {"pred"}, 0);
  }
  for (const std::string opcode : {"power", "atan2"}) {
    run(opcode, Joined({kFloats, kTinyFloats}), 8);
  }
  run("power", kComplexes, 64);
}

TEST_CASE("random compare, select, clamp, convert", "[kernels][reference]") {
  for (const std::string& type : kAll) {
    RunCases(4, [&](Dice& dice) {
      const bool is_float = type[0] == 'f' || type[0] == 'b';
      const Index dims = {dice.Roll(1, 90)};
      const std::string shape = ShapeText(type, dims), pred = ShapeText("pred", dims);
      const std::string direction =
          type[0] == 'c' ? dice.Pick<std::string>({"EQ", "NE"})
                         : dice.Pick<std::string>({"EQ", "NE", "LT", "LE", "GT", "GE"});
      Case test;
      test.parameters = {shape, shape, shape, pred, "pred[]"};
      test.body = fmt::format(
          "  c = {1} compare(p0, p1), direction={2}{3}\n  s = {0} select(p3, p0, p1)\n  t = {0} "
          "select(p4, p0, p1)\n",
          shape, pred, direction, is_float && dice.Flip() ? ", type=TOTALORDER" : "");
      if (type[0] != 'c' && type != "pred") {
        test.body +=
            fmt::format("  k = {0} clamp(p0, p1, p2)\n  ROOT r = tuple(c, s, t, k)", shape);
      } else {
        test.body += "  ROOT r = tuple(c, s, t)";
      }
      test.special_values = true;
      return test;
    });
  }
  for (const std::string& from : kAll) {
    for (const std::string& to : kAll) {
      if (from[0] == 'c' && to[0] != 'c') continue;  // real part: XLA takes it, the rule is real()
      RunCases(1, [&](Dice& dice) {
        const Index dims = {dice.Roll(1, 60)};
        Case test;
        test.parameters = {ShapeText(from, dims)};
        test.body = fmt::format("  ROOT r = {} convert(p0)", ShapeText(to, dims));
        test.special_values = true;
        return test;
      });
    }
  }
  for (const std::string& type : kFloats) {
    RunCases(6, [&](Dice& dice) {
      Case test;
      test.parameters = {type + "[50]"};
      test.body = fmt::format(
          "  i = pred[50] is-finite(p0)\n  q = {0}[50] reduce-precision(p0), exponent_bits={1}, "
          "mantissa_bits={2}\n  ROOT r = tuple(i, q)",
          type, dice.Roll(2, 8), dice.Roll(1, 10));
      test.special_values = true;
      return test;
    });
  }
  for (const std::string real : {"f32", "f64"}) {
    RunCases(1, [&](Dice&) {
      Case test;
      test.parameters = {real + "[50]", real + "[50]"};
      test.body = fmt::format(
          "  z = {1}[50] complex(p0, p1)\n  a = {0}[50] abs(z)\n  b = {0}[50] real(z)\n  c = "
          "{0}[50] imag(z)\n  ROOT r = tuple(z, a, b, c)",
          real, real == "f32" ? "c64" : "c128");
      test.ulps = 2;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
