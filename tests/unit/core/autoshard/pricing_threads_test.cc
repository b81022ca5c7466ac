#include "core/autoshard/pricing_threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

PlanToPrice Numbered(int number) { return {std::to_string(number), {{number}, false}}; }

std::optional<PlanFigures> FiguresOf(const Plan& plan) {
  if (plan.choices[0] == 13) return std::nullopt;
  if (plan.choices[0] == 99) throw std::runtime_error("99");
  PlanFigures figures;
  figures.step.peak_bytes = plan.choices[0];
  return figures;
}

TEST_CASE("plans are priced in their order, each once, whatever is priced ahead", "[autoshard]") {
  for (const size_t threads : {1u, 2u, 5u}) {
    std::atomic<int> priced = 0, out_of_range = 0;
    PricingThreads pricing(threads, [&](const Plan& plan, size_t thread) {
      out_of_range += thread >= threads;
      ++priced;
      return FiguresOf(plan);
    });
    for (int round = 0; round < 20; ++round) {
      std::vector<PlanToPrice> plans, next;
      for (int i = 0; i < 4; ++i) {
        plans.push_back(Numbered(100 + 4 * round + i));
        next.push_back(Numbered(100 + 4 * (round + 1) + i));
      }
      const auto figures = pricing.Run(std::move(plans), std::move(next));
      REQUIRE(figures.size() == 4);
      for (int i = 0; i < 4; ++i) CHECK(figures[At(i)]->step.peak_bytes == 100 + 4 * round + i);
    }
    CHECK(out_of_range == 0);
    CHECK(priced >= 80);
    CHECK(priced <= 84);
  }
}

TEST_CASE("what was priced ahead and is not asked for is of no consequence", "[autoshard]") {
  PricingThreads pricing(3, [](const Plan& plan, size_t) { return FiguresOf(plan); });
  // 99, which throws, is not asked for.
  CHECK(pricing.Run({Numbered(1)}, {Numbered(99), Numbered(2)})[0]->step.peak_bytes == 1);
  CHECK(pricing.Run({Numbered(2), Numbered(13)}, {Numbered(3)})[1] == std::nullopt);
  CHECK_THROWS_AS(pricing.Run({Numbered(4), Numbered(99)}, {}), std::runtime_error);
  CHECK(pricing.Run({Numbered(3)}, {})[0]->step.peak_bytes == 3);
  CHECK(pricing.Run({}, {}).empty());
}

}  // namespace
}  // namespace gshard::autoshard
