// Sizes of open dims from the sentences of jax.export.
#include "ir/stablehlo/import/dim_specifications.h"

#include <catch2/catch.hpp>

namespace gshard::stablehlo {

TEST_CASE("specifications of dims are read from a message", "[stablehlo]") {
  const auto found = SpecificationsIn(
      "Division had remainder {0}. Using the following polymorphic shapes specifications: "
      "args[0]['t'].shape = (b,),args[1].shape = (floordiv(b, 2) + 1, 3),kwargs['x'].shape = (2*b, "
      "s). Obtained dimension variables: 'b' = {0} from x.shape = (b).");
  CHECK(found ==
        std::vector<std::vector<std::string>>{{"b"}, {"floordiv(b, 2) + 1", "3"}, {"2*b", "s"}});
  CHECK(SpecificationsIn("b is {0}, not >= 1").empty());
  CHECK(SpecificationsIn("polymorphic shapes specifications: args[0].shape = (b, (s") ==
        std::vector<std::vector<std::string>>{{"b", "(s"}});
}

TEST_CASE("a specification is a size where its variables have one", "[stablehlo]") {
  const DimSizes sizes = {{"b", 7}, {"s_1", 3}, {"odd name", 5}};
  std::string missing;
  const auto size = [&](std::string_view text) { return EvaluateDim(text, sizes, &missing); };
  CHECK(size("b") == 7);
  CHECK(size("odd name") == 5);
  CHECK(size("2*b + s_1^2 - 1") == 22);
  CHECK(size("-b + 3*(b - s_1)") == 5);
  CHECK(size("floordiv(b, 2)*max(s_1, 5) + mod(-b, 4)") == 16);
  CHECK(missing.empty());
  CHECK_FALSE(size("b + 2*t"));
  CHECK(missing == "t");
  for (const char* text : {"", "b +", "b b", "mod(b, 0)", "f(b, 2)", "b^99",
                           "9223372036854775807*b", "99999999999999999999", "(b"}) {
    CAPTURE(text);
    CHECK_FALSE(size(text));
  }
  CHECK_FALSE(size(std::string(100000, '(')));
  CHECK_FALSE(size(std::string(100000, '-')));
}

TEST_CASE("a variable stands by itself", "[stablehlo]") {
  CHECK(IsDimVariable("s_1"));
  CHECK_FALSE(IsDimVariable("2*b"));
  CHECK_FALSE(IsDimVariable("8"));
  CHECK_FALSE(IsDimVariable(""));
}

}  // namespace gshard::stablehlo
