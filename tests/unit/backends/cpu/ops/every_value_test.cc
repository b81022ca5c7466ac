// Elementwise kernels against the reference evaluator, over all values of the small types.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {
namespace {

const std::vector<std::string> kHalves = {"bf16", "f16"};
const std::vector<std::string> kByteIntegers = {"s1", "u1", "s2", "u2", "s4", "u4", "s8", "u8"};

int64_t CountOf(const std::string& type) {
  return type == "pred" ? 2 : int64_t{1} << DTypeBits(*DTypeFromName(type));
}

// `lines`: instructions without their names; all are results.
void Check(const std::vector<std::string>& parameters, const std::vector<std::string>& lines,
           double ulps = 0) {
  Case test;
  test.parameters = parameters;
  test.every_value = true;
  test.ulps = ulps;
  std::string names;
  for (size_t k = 0; k < lines.size(); ++k) {
    test.body += fmt::format("  r{} = {}\n", k, lines[k]);
    names += fmt::format("{}r{}", k == 0 ? "" : ", ", k);
  }
  test.body += "  ROOT t = tuple(" + names + ")";
  RunCases(1, [&](Dice&) { return test; });
}

std::vector<std::string> Unary(const std::string& shape, const std::vector<std::string>& opcodes) {
  std::vector<std::string> lines;
  for (const std::string& opcode : opcodes) lines.push_back(shape + " " + opcode + "(p0)");
  return lines;
}

std::vector<std::string> Binary(const std::string& shape, const std::vector<std::string>& opcodes) {
  std::vector<std::string> lines;
  for (const std::string& opcode : opcodes) lines.push_back(shape + " " + opcode + "(p0, p1)");
  return lines;
}

std::vector<std::string> Compares(int64_t count, const std::string& type) {
  std::vector<std::string> lines;
  for (const std::string direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    lines.push_back(
        fmt::format("pred[{}] compare(p0, p1), direction={}{}", count, direction, type));
  }
  return lines;
}

}  // namespace

TEST_CASE("unary operations on every value", "[kernels][reference]") {
  for (const std::string& type : Joined({kHalves, kTinyFloats})) {
    const std::string shape = ShapeText(type, {CountOf(type)});
    Check({shape}, Unary(shape, {"abs", "negate", "sign", "floor", "ceil", "round-nearest-afz",
                                 "round-nearest-even", "sqrt"}));
    // Each is computed in f32 with a few ulp, then rounded.
    Check({shape},
          Unary(shape, {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
                        "rsqrt", "cbrt", "sine", "cosine", "tan", "tanh", "asinh", "atanh", "erf"}),
          1);
  }
  for (const std::string& type : kByteIntegers) {
    const std::string shape = ShapeText(type, {CountOf(type)});
    Check({shape}, Unary(shape, {"negate", "not", "popcnt", "count-leading-zeros"}));
    if (type[0] == 's') Check({shape}, Unary(shape, {"abs", "sign"}));
  }
}

TEST_CASE("reduce-precision of every value", "[kernels][reference]") {
  for (const std::string& type : Joined({kHalves, kTinyFloats})) {
    const std::string shape = ShapeText(type, {CountOf(type)});
    std::vector<std::string> lines;
    for (const auto& [exponent, mantissa] : std::vector<std::pair<int, int>>{
             {5, 10}, {5, 3}, {5, 0}, {4, 3}, {3, 2}, {2, 1}, {2, 0}, {8, 7}, {11, 1}}) {
      lines.push_back(fmt::format("{} reduce-precision(p0), exponent_bits={}, mantissa_bits={}",
                                  shape, exponent, mantissa));
    }
    Check({shape}, lines);
  }
}

TEST_CASE("integer operations on every pair of values", "[kernels][reference]") {
  for (const std::string& type : kByteIntegers) {
    const std::string shape = ShapeText(type, {CountOf(type) * CountOf(type)});
    Check({shape, shape},
          Binary(shape, {"add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum",
                         "and", "or", "xor", "shift-left", "shift-right-logical",
                         "shift-right-arithmetic", "power", "mulhi"}));
  }
}

TEST_CASE("floats of eight bits: every pair of values", "[kernels][reference]") {
  for (const std::string& type : kTinyFloats) {
    const int64_t count = CountOf(type) * CountOf(type);
    const std::string shape = ShapeText(type, {count});
    Check({shape, shape}, Binary(shape, {"add", "subtract", "multiply", "divide", "remainder",
                                         "maximum", "minimum"}));
    Check({shape, shape}, Compares(count, ""));
    Check({shape, shape}, Compares(count, ", type=TOTALORDER"));
  }
}

TEST_CASE("conversions of every value to every type", "[kernels][reference]") {
  for (const std::string& from : Joined({kHalves, kTinyFloats, kByteIntegers, {"pred"}})) {
    std::vector<std::string> lines;
    for (const std::string& to : kAll) {
      lines.push_back(fmt::format("{}[{}] convert(p0)", to, CountOf(from)));
    }
    Check({ShapeText(from, {CountOf(from)})}, lines);
  }
}

}  // namespace gshard::cpu::testing
