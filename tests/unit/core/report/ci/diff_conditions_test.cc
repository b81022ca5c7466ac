#include "core/report/ci/diff_conditions.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

CostDiff Changed() {
  CostDiff diff;
  diff.totals = {{"step_time_s", "step time", {0.010, 0.0101}},
                 {"peak_bytes", "peak", {1000, 1000}},
                 {"mfu", "MFU", {0, 0}}};
  diff.traffic = {{"data", {100, 50}}};
  return diff;
}

bool Holds(std::string_view condition) {
  auto conditions = ParseDiffConditions(condition);
  REQUIRE(conditions);
  const std::vector<CiCheck> checks = CheckDiff(Changed(), *conditions);
  REQUIRE(checks.size() == 1);
  return FailedChecks(checks).empty();
}

std::string ErrorOf(std::string_view text) {
  auto conditions = ParseDiffConditions(text);
  return conditions ? "" : conditions.error().code;
}

TEST_CASE("Conditions hold for the figure after, as their bound says", "[ci]") {
  CHECK(Holds("step_time<+2%"));
  CHECK(!Holds("step_time<+0.5%"));
  CHECK(Holds("step_time<+1ms"));
  CHECK(!Holds("step_time<+50us"));
  CHECK(Holds("step_time<=10.2ms"));
  CHECK(!Holds("step_time<=10ms"));
  CHECK(!Holds("step_time=="));
  CHECK(Holds("peak=="));
  CHECK(Holds("traffic.data<=+0"));
  CHECK(!Holds("traffic.data>="));
  CHECK(Holds("traffic.model=="));  // neither has it
}

TEST_CASE("A figure that stays 0 keeps within a share", "[ci]") {
  CHECK(Holds("mfu<+2%"));
  CHECK(Holds("peak<+0%"));
}

TEST_CASE("What is no condition is refused", "[ci]") {
  for (const char* text : {"", "step_time", "speed<+2%", "step_time<", "step_time<+2MiB", "peak<+x",
                           "peak<1e999", "traffic.<+1", "peak<+1%,,", "collectives.allreduce<3"}) {
    INFO(text);
    CHECK(ErrorOf(text) == "E-COST-023");
  }
  CHECK(ErrorOf("peak<+1%,step_time<+2%,collectives.all-reduce<3").empty());
}

}  // namespace
}  // namespace gshard
