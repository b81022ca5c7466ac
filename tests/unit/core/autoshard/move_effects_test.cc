// What changes of one group did to plans, and what they are expected to do.

#include "core/autoshard/move_effects.h"

#include <catch2/catch.hpp>
#include <memory>

#include "core/autoshard/plan_pricer.h"

namespace gshard::autoshard {
namespace {

// Three groups: x, w and the product, of a few options each.
std::unique_ptr<PlanPricer> PricerOfOneDot() {
  PricingOptions options;
  options.chip = *BuiltInChip("h100");
  return std::move(*PlanPricer::Make(R"(HloModule dot, num_partitions=2
ENTRY e {
  x = f32[512,256] parameter(0)
  w = f32[256,1024] parameter(1)
  ROOT d = f32[512,1024] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                     "", {{"x", 2}}, options));
}

PlanFigures Figures(double seconds, int64_t peak_bytes) {
  PlanFigures figures;
  figures.step.step_time_s = seconds;
  figures.step.peak_bytes = peak_bytes;
  return figures;
}

TEST_CASE("a change is expected to do what it did to the last plan", "[autoshard]") {
  const auto pricer = PricerOfOneDot();
  REQUIRE(pricer->space().groups()[0].options.size() > 1);
  MoveEffects effects(pricer->space());
  CHECK_FALSE(effects.Expect(0, 1, Figures(1, 100)));
  CHECK_FALSE(effects.IsHopeless(0, 1));

  effects.Note(0, 1, Figures(1, 100), Figures(2, 50));
  const auto expected = effects.Expect(0, 1, Figures(3, 80));
  REQUIRE(expected);
  CHECK(expected->step.step_time_s == 6);
  CHECK(expected->step.peak_bytes == 40);
  CHECK(effects.IsHopeless(0, 1));

  // Once it did no harm it is not hopeless, whatever it did before and does after.
  effects.Note(0, 1, Figures(1, 100), Figures(1.05, 100));
  CHECK_FALSE(effects.IsHopeless(0, 1));
  effects.Note(0, 1, Figures(1, 100), Figures(4, 100));
  CHECK_FALSE(effects.IsHopeless(0, 1));
  CHECK(effects.Expect(0, 1, Figures(1, 100))->step.step_time_s == 4);
}

TEST_CASE("a change is without effect that left two plans in a row as they were", "[autoshard]") {
  const auto pricer = PricerOfOneDot();
  MoveEffects effects(pricer->space());
  CHECK_FALSE(effects.IsWithoutEffect(0, 1));
  effects.Note(0, 1, Figures(1, 100), Figures(1, 100));
  CHECK_FALSE(effects.IsWithoutEffect(0, 1));
  effects.Note(0, 1, Figures(2, 80), Figures(2, 80));
  CHECK(effects.IsWithoutEffect(0, 1));
  effects.Note(0, 1, Figures(2, 80), Figures(2, 79));
  CHECK_FALSE(effects.IsWithoutEffect(0, 1));
  effects.Note(0, 1, Figures(2, 80), std::nullopt);
  effects.Note(0, 1, Figures(2, 80), std::nullopt);
  CHECK_FALSE(effects.IsWithoutEffect(0, 1));
}

TEST_CASE("a change that cannot be partitioned is hopeless", "[autoshard]") {
  const auto pricer = PricerOfOneDot();
  MoveEffects effects(pricer->space());
  effects.Note(0, 1, Figures(1, 100), std::nullopt);
  CHECK(effects.IsHopeless(0, 1));
  CHECK(effects.Expect(0, 1, Figures(1, 100))->step.step_time_s > 1e300);
}

}  // namespace
}  // namespace gshard::autoshard
