// Gathering totals against rounds of permutes: bytes by hand (docs/partitioning.md, "Running
// operations").
#include "core/partition/scope/tile_prefix.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

TEST_CASE("few tiles gather their totals") {
  // Two or three tiles: as many rounds as totals to receive. Four: 3 rounds against 3 totals.
  for (int64_t tiles : {2, 3, 4}) {
    PrefixPlan plan = PlanPrefix({}, 1 << 20, tiles);
    CHECK_FALSE(plan.by_permutes);
    CHECK(plan.bytes == static_cast<double>((tiles - 1) << 20));
  }
}

TEST_CASE("rounds of permutes reach twice as far each") {
  // Distance 1 first, then 1, 2, 4, .. among the tiles that have one before them.
  CHECK(PlanPrefix({}, 1 << 20, 5).bytes == 3 << 20);
  CHECK(PlanPrefix({}, 1 << 20, 8).bytes == 4 << 20);
  CHECK(PlanPrefix({}, 1 << 20, 9).bytes == 4 << 20);
  CHECK(PlanPrefix({}, 1 << 20, 10).bytes == 5 << 20);
  CHECK(PlanPrefix({}, 1 << 20, 2048).bytes == 12 << 20);
  CHECK(PlanPrefix({}, 1 << 20, 2048).by_permutes);
}

TEST_CASE("rounds must save more than they take") {
  PartitionOptions options;
  options.bytes_per_round = 100;
  // 8 tiles: 4 rounds instead of 1 save 3 totals.
  CHECK_FALSE(PlanPrefix(options, 100, 8).by_permutes);
  CHECK(PlanPrefix(options, 101, 8).by_permutes);
  CHECK_FALSE(PlanPrefix(options, 8, 8).by_permutes);
}

TEST_CASE("one tile has nothing before it") {
  PrefixPlan plan = PlanPrefix({}, 1 << 20, 1);
  CHECK_FALSE(plan.by_permutes);
  CHECK(plan.bytes == 0);
}

}  // namespace
}  // namespace gshard
