// Elimination finds what enumeration finds.

#include "core/autoshard/elimination.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/autoshard/enumeration.h"
#include "tests/unit/random.h"

namespace gshard::autoshard {
namespace {

// Costs are whole numbers, so that sums in any order are equal.
SumOfCosts RandomSum(Random& random) {
  SumOfCosts sum;
  const size_t variables = 1 + random.Below(6);
  for (size_t v = 0; v < variables; ++v) sum.sizes.push_back(1 + static_cast<int>(random.Below(4)));
  const size_t tables = random.Below(8);
  for (size_t t = 0; t < tables; ++t) {
    CostTable table;
    size_t cells = 1;
    const size_t most = random.Below(4);  // a table of no variable is a constant
    for (size_t i = 0; i < most; ++i) {
      const int variable = static_cast<int>(random.Below(variables));
      if (std::ranges::find(table.variables, variable) != table.variables.end()) continue;
      table.variables.push_back(variable);
      cells *= static_cast<size_t>(sum.sizes[static_cast<size_t>(variable)]);
    }
    for (size_t i = 0; i < cells; ++i) {
      table.costs.push_back(static_cast<double>(random.Below(100)));
    }
    sum.tables.push_back(std::move(table));
  }
  return sum;
}

}  // namespace

TEST_CASE("elimination finds the least of random sums", "[autoshard]") {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const SumOfCosts sum = RandomSum(random);
    const auto least = LeastByElimination(sum, 1e9);
    REQUIRE(least);
    REQUIRE(least->cost == LeastByEnumeration(sum));
    REQUIRE(least->cost == sum.Of(least->values));
  }
}

TEST_CASE("elimination of a chain takes small tables, of all pairs large ones", "[autoshard]") {
  constexpr int kVariables = 12, kValues = 4;
  SumOfCosts chain, pairs;
  chain.sizes.assign(kVariables, kValues);
  pairs.sizes = chain.sizes;
  for (int a = 0; a < kVariables; ++a) {
    for (int b = a + 1; b < kVariables; ++b) {
      CostTable table{{a, b}, {}};
      for (int i = 0; i < kValues * kValues; ++i) table.costs.push_back((i * 7 + a + b) % 5);
      if (b == a + 1) chain.tables.push_back(table);
      pairs.tables.push_back(table);
    }
  }
  CHECK(LeastByElimination(chain, kValues * kValues));
  CHECK_FALSE(LeastByElimination(chain, kValues * kValues - 1));
  CHECK_FALSE(LeastByElimination(pairs, 1e6));
}

TEST_CASE("variables without costs get their first value", "[autoshard]") {
  const SumOfCosts sum{{3, 2}, {{{1}, {5, 4}}}};
  const auto least = LeastByElimination(sum, 100);
  REQUIRE(least);
  CHECK(least->values == std::vector<int>{0, 1});
  CHECK(least->cost == 4);
}

}  // namespace gshard::autoshard
