#include "core/report/budget.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

CostReport TwoCollectives() {
  CostReport report;
  report.devices = 8;
  report.step_time_s = 0.01;
  report.memory.peak_bytes = 1000;
  report.collectives = {{"all-reduce", {"model"}, 4, 100, 0, 0, "", 0},
                        {"all-gather", {"data", "model:(1)2"}, 1, 50, 0, 0, "", 0}};
  return report;
}

Mesh DataModel() {
  return {"", {{"data", 2}, {"model", 4}, {"stage", 1}}, TileAssignment::Iota({{2, 4, 1}}), ""};
}

// Keys of the bounds that do not hold.
std::vector<std::string> Exceeded(const Budget& figures, const Budget& budget) {
  auto bounds = BoundedFigures(figures, budget, "b.json");
  REQUIRE(bounds);
  std::vector<std::string> keys;
  for (const BoundedFigure& bound : *bounds) {
    if (bound.IsExceeded()) keys.push_back(bound.key);
  }
  return keys;
}

TEST_CASE("A collective counts for each of its axes, a part of an axis for the axis", "[budget]") {
  const Mesh mesh = DataModel();
  const Budget figures = FiguresFor(TwoCollectives(), &mesh, 0);
  CHECK(figures.bytes_per_device ==
        std::map<std::string, double>{{"*", 150}, {"data", 50}, {"model", 150}, {"stage", 0}});
  CHECK(figures.collectives.at("*") == 5);
  CHECK(figures.collectives.at("all-reduce") == 4);
  CHECK(figures.collectives.at("all-to-all") == 0);
}

TEST_CASE("A program keeps within the budget that is written of it", "[budget]") {
  const Mesh mesh = DataModel();
  for (const double head_room : {0.0, 0.1}) {
    const Budget figures = FiguresFor(TwoCollectives(), &mesh, 2);
    auto budget = ParseBudget(BudgetAsJson(figures, head_room), "b.json");
    REQUIRE(budget);
    CHECK(Exceeded(figures, *budget).empty());
    CostReport dearer = TwoCollectives();
    dearer.step_time_s *= 1.12;
    dearer.memory.peak_bytes = 1101;
    dearer.collectives[0].count = 5;
    CHECK(Exceeded(FiguresFor(dearer, &mesh, 3), *budget) ==
          std::vector<std::string>{"step_time_s", "peak_bytes", "collectives.*",
                                   "collectives.all-reduce", "full_rematerializations"});
  }
}

TEST_CASE("A bound holds up to itself", "[budget]") {
  auto budget = ParseBudget(R"({"peak_bytes":1000,"step_time_s":0.01})", "b.json");
  REQUIRE(budget);
  CHECK(Exceeded(FiguresFor(TwoCollectives(), nullptr, {}), *budget).empty());
  budget->peak_bytes = 999;
  CHECK(Exceeded(FiguresFor(TwoCollectives(), nullptr, {}), *budget) ==
        std::vector<std::string>{"peak_bytes"});
}

TEST_CASE("Bounds that could not fail are errors", "[budget]") {
  for (const char* text :
       {R"({"peak":1})", R"({"collectives":{"allreduce":1}})", R"({"peak_bytes":"1"})", "[]", "{",
        R"({"peak_bytes":-1})", R"({"collectives":4})", R"({"schema":"gshard.cost/1"})"}) {
    INFO(text);
    auto budget = ParseBudget(text, "b.json");
    REQUIRE_FALSE(budget);
    CHECK(budget.error().code == "E-COST-021");
    CHECK(budget.error().file == "b.json");
  }
  const Mesh mesh = DataModel();
  const Budget figures = FiguresFor(TwoCollectives(), &mesh, {});
  for (const char* text :
       {R"({"bytes_per_device":{"modle":1}})", R"({"full_rematerializations":0})"}) {
    auto bounds = BoundedFigures(figures, *ParseBudget(text, "b.json"), "b.json");
    REQUIRE_FALSE(bounds);
    CHECK(bounds.error().code == "E-COST-022");
  }
}

}  // namespace
}  // namespace gshard
