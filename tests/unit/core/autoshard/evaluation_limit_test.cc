// How many plans are priced where nobody says how many.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/autoshard/auto_sharding.h"
#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

// A chain of `length` tanhs, with a reshape there and back behind each if `reshapes`.
int64_t LimitOfChain(int length, bool reshapes, const AutoOptions& options) {
  std::string body = "  x0 = f32[4,6] parameter(0)\n";
  for (int i = 1; i <= length; ++i) {
    body += fmt::format("  t{} = f32[4,6] tanh(x{})\n", i, i - 1);
    if (reshapes) {
      body +=
          fmt::format("  r{} = f32[24] reshape(t{})\n  x{} = f32[4,6] reshape(r{})\n", i, i, i, i);
    } else {
      body += fmt::format("  x{} = f32[4,6] copy(t{})\n", i, i);
    }
  }
  body += fmt::format("  ROOT y = f32[4,6] negate(x{})\n", length);
  const auto module =
      ParseModule(SourceText::FromString("t.hlo", "HloModule m\nENTRY e {\n" + body + "}\n"));
  REQUIRE(module);
  return EvaluationLimit(**module, options);
}

}  // namespace

TEST_CASE("large programs have fewer plans priced than small ones", "[autoshard]") {
  const AutoOptions options;
  CHECK(LimitOfChain(10, false, options) == 3000);
  CHECK(LimitOfChain(500, false, options) == 2000);
  CHECK(LimitOfChain(5000, false, options) == 1250);
  // What only changes shapes, as texts of one program differ in it, counts for nothing.
  CHECK(LimitOfChain(500, true, options) == 2000);
}

TEST_CASE("the user's number of plans counts, and a time limit lowers it", "[autoshard]") {
  AutoOptions options;
  options.evaluations = 700;
  CHECK(LimitOfChain(500, false, options) == 700);
  options.seconds = 0.5;
  CHECK(LimitOfChain(500, false, options) < 700);
  options.seconds = 1e-9;
  CHECK(LimitOfChain(500, false, options) == 16);
}

}  // namespace gshard::autoshard
