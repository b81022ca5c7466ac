// A pick is a near tie where the mesh's floats lead to it.
#include "backends/cpu/verify/near_ties.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "ir/computation.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

// Does `operation`, of f32 x and y, make `pick` of the mesh's `floats`?
template <typename Pick>
bool Makes(const std::string& result, const std::string& operation, Pick pick,
           const std::vector<float>& floats) {
  const auto module = ParseModule(SourceText::FromString(
      "test.hlo",
      "HloModule m\nENTRY e { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = " +
          result + " " + operation + " }\n"));
  REQUIRE(module);
  std::vector<ContenderValue> values;
  for (const float value : floats) {
    ContenderValue& known = values.emplace_back();
    std::memcpy(known.have.data(), &value, sizeof value);
    known.known = true;
  }
  std::byte bytes[sizeof(Pick)];
  std::memcpy(bytes, &pick, sizeof pick);
  return MakesPick(*(*module)->entry()->root(), bytes, values);
}

TEST_CASE("picks that follow from floats", "[cpu]") {
  CHECK(Makes("pred[]", "compare(x, y), direction=GT", uint8_t{1}, {2, 1}));
  CHECK_FALSE(Makes("pred[]", "compare(x, y), direction=GT", uint8_t{1}, {1, 1}));
  CHECK(Makes("pred[]", "compare(x, y), direction=GE", uint8_t{1}, {1, 1}));
  CHECK(Makes("pred[]", "compare(x, y), direction=NE", uint8_t{0}, {1, 1}));
  CHECK(Makes("pred[]", "compare(x, y), direction=LE", uint8_t{0}, {2, 1}));
  CHECK(Makes("f32[]", "floor(x)", 1.0F, {1.75}));
  CHECK_FALSE(Makes("f32[]", "floor(x)", 2.0F, {1.75}));
  CHECK(Makes("f32[]", "ceil(x)", 2.0F, {1.25}));
  CHECK(Makes("f32[]", "round-nearest-afz(x)", 3.0F, {2.5}));
  CHECK(Makes("f32[]", "round-nearest-even(x)", 2.0F, {2.5}));
  CHECK(Makes("f32[]", "sign(x)", -1.0F, {-0.25}));
  CHECK(Makes("f32[]", "remainder(x, y)", 0.5F, {2.5, 2}));
  CHECK(Makes("s32[]", "convert(x)", int32_t{-2}, {-2.75}));
  CHECK_FALSE(Makes("s32[]", "convert(x)", int32_t{-3}, {-2.75}));
  CHECK(Makes("pred[]", "is-finite(x)", uint8_t{1}, {4}));
}

TEST_CASE("of floats that are not known nothing follows", "[cpu]") {
  CHECK_FALSE(Makes("f32[]", "floor(x)", 1.0F, {}));
}

}  // namespace
}  // namespace gshard::cpu
