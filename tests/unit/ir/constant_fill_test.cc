#include "ir/constant_fill.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/parser.h"

namespace gshard {
namespace {

// The last instruction of a program of `lines`.
struct Last {
  explicit Last(std::string_view lines) {
    const std::string text = fmt::format("HloModule m\nENTRY e {{\n{}\n}}", lines);
    auto parsed = ParseModule(SourceText::FromString("test.hlo", text));
    if (!parsed) FAIL(Render(parsed.error()));
    module = std::move(*parsed);
    x = module->entry()->root();
  }

  std::unique_ptr<Module> module;
  const Instruction* x = nullptr;
};

std::optional<double> NumberOf(std::string_view lines) { return FillingNumber(Last(lines).x); }

TEST_CASE("one constant fills what only moves it", "[ir][constant_fill]") {
  const Last fill(R"(  c = f32[1,2] constant({{-2, -2}})
  t = f32[2,1] transpose(c), dimensions={1,0}
  r = f32[2] reshape(t)
  k = f32[2] copy(r)
  b = f32[2,3] broadcast(k), dimensions={0}
  ROOT s = f32[2,3] custom-call(b), custom_call_target="Sharding", sharding={replicated})");
  REQUIRE(ConstantFill(fill.x) != nullptr);
  CHECK(ElementAsDouble(*ConstantFill(fill.x), 0) == -2);
  CHECK(IsFilledWith(fill.x, -2));
  CHECK_FALSE(IsFilledWith(fill.x, 2));
  CHECK_FALSE(IsFilledWithZero(fill.x));
}

TEST_CASE("a bitcast of bytes to another type is another number", "[ir][constant_fill]") {
  CHECK(NumberOf("  c = f32[2] constant({3, 3})\n  ROOT b = f32[1,2] bitcast(c)") == 3);
  CHECK(NumberOf("  c = f32[2] constant({3, 3})\n  ROOT b = s32[2] bitcast(c)") == std::nullopt);
}

TEST_CASE("two values, none, and those that were not printed fill nothing", "[ir][constant_fill]") {
  CHECK(NumberOf("  ROOT c = f32[2] constant({1, 2})") == std::nullopt);
  CHECK(NumberOf("  ROOT c = f32[0] constant({})") == std::nullopt);
  CHECK(NumberOf("  ROOT c = f32[2] constant({...})") == std::nullopt);
  CHECK(NumberOf("  ROOT p = f32[2] parameter(0)") == std::nullopt);
  CHECK(NumberOf("  c = f32[2] constant({1, 1})\n  ROOT s = f32[2] add(c, c)") == std::nullopt);
}

TEST_CASE("zeros are told apart by sign, or not", "[ir][constant_fill]") {
  const Last zero("  ROOT c = f32[] constant(-0.0)");
  CHECK(IsFilledWith(zero.x, -0.0));
  CHECK_FALSE(IsFilledWith(zero.x, 0.0));
  CHECK(IsFilledWithZero(zero.x));
}

TEST_CASE("converts change the number as they do when run", "[ir][constant_fill]") {
  const auto converted = [](std::string_view value, const std::vector<std::string>& types) {
    std::string lines = fmt::format("  c0 = {}[] constant({})\n", types[0], value);
    for (size_t i = 1; i < types.size(); ++i) {
      lines += fmt::format("  c{} = {}[] convert(c{})\n", i, types[i], i - 1);
    }
    return NumberOf(
        fmt::format("{}  ROOT r = {}[] copy(c{})", lines, types.back(), types.size() - 1));
  };
  CHECK(converted("0.5", {"f32", "s32"}) == 0);
  CHECK(converted("-0.5", {"f32", "s32", "f32"}) == 0);
  CHECK(converted("0.5", {"f32", "pred", "f32"}) == 1);
  CHECK(converted("257", {"f32", "bf16"}) == 256);
  CHECK(converted("3e38", {"f32", "f16"}) == INFINITY);
  CHECK(converted("(2, 0)", {"c64", "c128"}) == 2);
  CHECK(converted("(2, 1)", {"c64", "c128"}) == std::nullopt);
  CHECK(converted("300", {"s32", "s8"}) == std::nullopt);
  CHECK(converted("-1", {"s32", "u32"}) == std::nullopt);
  CHECK(converted("18446744073709551615", {"u64", "f32"}) == std::nullopt);
}

}  // namespace
}  // namespace gshard
