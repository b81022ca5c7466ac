#include "core/analysis/integer_value.h"

#include <fmt/format.h>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// Of the root of an entry with this body.
std::optional<int64_t> ValueOf(std::string_view body) {
  auto module = Parsed(fmt::format("HloModule m\nENTRY e {{\n{}\n}}", body));
  return ConstantScalar(module->entry()->root());
}

// ROOT r = type op(a, b)
std::optional<int64_t> Binary(std::string_view type, std::string_view op, std::string_view a,
                              std::string_view b) {
  return ValueOf(
      fmt::format("  a = {0}[] constant({2})\n  b = {0}[] constant({3})\n"
                  "  ROOT r = {0}[] {1}(a, b)",
                  type, op, a, b));
}

std::optional<int64_t> Compare(std::string_view type, std::string_view direction,
                               std::string_view a, std::string_view b) {
  return ValueOf(
      fmt::format("  a = {0}[] constant({2})\n  b = {0}[] constant({3})\n"
                  "  ROOT r = pred[] compare(a, b), direction={1}",
                  type, direction, a, b));
}

TEST_CASE("integers are computed as their types compute them", "[analysis]") {
  CHECK(Binary("s32", "add", "3", "4") == 7);
  CHECK(Binary("s8", "add", "127", "1") == -128);
  CHECK(Binary("u8", "add", "255", "1") == 0);
  CHECK(Binary("u8", "subtract", "0", "1") == 255);
  CHECK(Binary("s64", "multiply", "9223372036854775807", "2") == -2);
  CHECK(Binary("s32", "divide", "-7", "2") == -3);
  CHECK(Binary("s32", "remainder", "-7", "2") == -1);
  CHECK(Binary("s32", "divide", "7", "0") == -1);
  CHECK(Binary("u8", "divide", "7", "0") == 255);
  CHECK(Binary("s32", "remainder", "7", "0") == 7);
  CHECK(Binary("s64", "divide", "-9223372036854775808", "-1") ==
        std::numeric_limits<int64_t>::min());
  CHECK(Binary("u64", "maximum", "18446744073709551615", "1") == -1);
  CHECK(Binary("pred", "xor", "true", "true") == 0);
}

TEST_CASE("comparisons of every direction, signed and unsigned", "[analysis]") {
  for (const auto& [direction, less, equal, greater] :
       {std::tuple("EQ", 0, 1, 0), std::tuple("NE", 1, 0, 1), std::tuple("LT", 1, 0, 0),
        std::tuple("LE", 1, 1, 0), std::tuple("GT", 0, 0, 1), std::tuple("GE", 0, 1, 1)}) {
    INFO(direction);
    CHECK(Compare("s32", direction, "-1", "1") == less);
    CHECK(Compare("s32", direction, "1", "1") == equal);
    CHECK(Compare("u64", direction, "18446744073709551615", "1") == greater);
  }
}

TEST_CASE("values pass through copies, tuples and what is selected", "[analysis]") {
  CHECK(ValueOf("  a = s32[] constant(300)\n  c = s8[] convert(a)\n  k = s8[] copy(c)\n"
                "  t = (s8[], s32[]) tuple(k, a)\n  ROOT r = s8[] get-tuple-element(t), index=0") ==
        44);
  const char* const kSelect =
      "  x = s32[] parameter(0)\n  a = s32[] constant(5)\n  p = pred[] constant({})\n"
      "  ROOT r = s32[] select(p, a, x)";
  CHECK(ValueOf(fmt::format(fmt::runtime(kSelect), "true")) == 5);
  CHECK(ValueOf(fmt::format(fmt::runtime(kSelect), "false")) == std::nullopt);
  CHECK(ValueOf("  a = f32[] constant(5)\n  ROOT r = s32[] convert(a)") == std::nullopt);
}

TEST_CASE("each value is computed once", "[analysis]") {
  std::string body = "  x0 = s32[] constant(1)\n";
  for (int i = 1; i <= 60; ++i) {
    body += fmt::format("  {2}x{0} = s32[] add(x{1}, x{1})\n", i, i - 1, i == 60 ? "ROOT " : "");
  }
  CHECK(ValueOf(body) == 0);  // 2^60, of which s32 keeps nothing
}

}  // namespace
}  // namespace gshard
