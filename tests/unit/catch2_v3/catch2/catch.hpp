// The header of Catch2 2, for Catch2 3: what our tests use, under the names it had.
#ifndef GSHARD_TESTS_UNIT_CATCH2_V3_CATCH2_CATCH_HPP_
#define GSHARD_TESTS_UNIT_CATCH2_V3_CATCH2_CATCH_HPP_

#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

using Catch::Approx;

namespace Catch {
using Matchers::StartsWith;
inline Matchers::StringContainsMatcher Contains(const std::string& text) {
  return Matchers::ContainsSubstring(text);
}
}  // namespace Catch

#endif  // GSHARD_TESTS_UNIT_CATCH2_V3_CATCH2_CATCH_HPP_
