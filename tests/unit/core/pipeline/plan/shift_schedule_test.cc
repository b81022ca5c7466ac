// The shifting buffer's clock: every pass once, each after the one it needs; bubbles are the
// papers' formulas.
#include "core/pipeline/plan/shift_schedule.h"

#include <catch2/catch.hpp>
#include <map>
#include <utility>

namespace gshard::pipeline {
namespace {

// Bubble with alike stages that take 1 forward and 2 backward (the first less: it has no gradient
// to hand on), and `outside` for layers before and after the buffer.
double BubbleOf(const ShiftClock& clock, double outside = 0) {
  const size_t count = static_cast<size_t>(clock.group_ticks()) + 2;
  PassTimes times{std::vector<double>(count, 1), std::vector<double>(count, 2), {}};
  times.forward.front() = times.forward.back() = outside;
  times.backward[1] = 1.5;
  times.backward.front() = times.backward.back() = outside;
  return SimulateShift(clock, times, /*has_backward=*/true).bubble_fraction;
}

}  // namespace

TEST_CASE("Every micro-batch goes through all stages in order, one tick each") {
  for (int64_t k : {1, 2, 3, 8}) {
    for (int64_t r : {1, 2, 3}) {
      for (int64_t m : {1, 2, 5, 8, 16}) {
        const ShiftClock clock{k, r, m};
        std::map<std::pair<int64_t, int64_t>, int64_t> tick_of;  // (microbatch, virtual stage)
        for (int64_t tick = 0; tick < clock.ticks(); ++tick) {
          for (int64_t stage = 0; stage < k; ++stage) {
            ShiftClock::Work work = clock.At(tick, stage);
            if (!work.is_valid) continue;
            const int64_t v = work.repeat * k + stage;
            REQUIRE(tick_of.emplace(std::pair{work.microbatch, v}, tick).second);
            if (v > 0) CHECK(tick_of.at({work.microbatch, v - 1}) == tick - 1);
          }
        }
        CHECK(tick_of.size() == static_cast<size_t>(k * r * m));
        if (m % k == 0) CHECK(clock.ticks() == r * m + k - 1);
      }
    }
  }
}

TEST_CASE("The bubble of the shifting buffer is (K-1)/(M+K-1), circular (K-1)/(R M+K-1)") {
  for (int64_t k : {1, 2, 4, 8}) {
    for (int64_t r : {1, 2, 4}) {
      for (int64_t m : {k, 4 * k, 8 * k}) {
        const double expected = static_cast<double>(k - 1) / static_cast<double>(r * m + k - 1);
        CHECK(BubbleOf({k, r, m}) == Approx(expected).margin(1e-12));
      }
    }
  }
  CHECK(BubbleOf({4, 1, 6}) == Approx(3.0 / 9));
  // Layers outside the buffer compute on no padding of it, whatever they take.
  CHECK(BubbleOf({4, 1, 6}, 5) == Approx(3.0 / 9));
}

}  // namespace gshard::pipeline
