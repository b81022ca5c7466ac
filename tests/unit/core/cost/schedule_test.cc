// The simulation of compute and links.

#include "core/cost/schedule.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace gshard {
namespace {

ScheduleNode Compute(double seconds, std::vector<int32_t> after = {}) {
  ScheduleNode node;
  node.seconds = seconds;
  node.after = std::move(after);
  return node;
}

ScheduleNode Aside(double seconds, std::vector<int32_t> after = {}, uint32_t links = 1) {
  ScheduleNode node = Compute(seconds, std::move(after));
  node.on_compute = false;
  node.links = links;
  return node;
}

ScheduleNode Stall(double seconds, std::vector<int32_t> after = {}) {
  ScheduleNode node = Compute(seconds, std::move(after));
  node.links = 1;
  node.is_stall = true;
  return node;
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST_CASE("A collective hides behind what does not need it", "[schedule]") {
  // 0: product, 1: gather, 2: product of both
  Schedule schedule = Simulate({Compute(2), Aside(3), Compute(1, {0, 1})}, 1, false);
  CHECK(schedule.seconds == Approx(4));
  CHECK(schedule.exposed_s[1] == Approx(1));
  schedule = Simulate({Compute(2), Stall(3), Compute(1, {0, 1})}, 1, false);
  CHECK(schedule.seconds == Approx(6));
  CHECK(schedule.exposed_s[1] == Approx(3));
}

TEST_CASE("Collectives on the same links wait for each other, on others not", "[schedule]") {
  CHECK(Simulate({Aside(3), Aside(3), Compute(1, {0, 1})}, 1, false).seconds == Approx(7));
  CHECK(Simulate({Aside(3), Aside(3, {}, 2), Compute(1, {0, 1})}, 1, false).seconds == Approx(4));
}

TEST_CASE("What has the longest tail goes first; compiled text keeps its order", "[schedule]") {
  // 1 feeds a long collective.
  std::vector<ScheduleNode> nodes = {Compute(2), Compute(1), Aside(3, {1}), Compute(1, {0, 2})};
  CHECK(Simulate(nodes, 1, false).seconds == Approx(5));
  CHECK(Simulate(nodes, 1, true).seconds == Approx(7));
}

TEST_CASE("In the text's order a loop waits for links that are busy", "[schedule]") {
  ScheduleNode loop = Compute(5);
  loop.links = ~uint32_t{0};
  const Schedule schedule = Simulate({Aside(3), loop, Compute(1, {1})}, 1, true);
  CHECK(schedule.seconds == Approx(9));
  CHECK(schedule.exposed_s[0] == Approx(3));
}

TEST_CASE("Loops prefetch for the next trip and carry what they must", "[schedule]") {
  // A gather of weights that needs nothing of the trip before: only the first is exposed.
  ScheduleNode product = Compute(4, {0});
  product.after_previous = {1};
  CHECK(Simulate({Aside(3), product}, 100, false).seconds == Approx(403));
  // A gather of what the trip before computed: every one is.
  ScheduleNode gather = Aside(3);
  gather.after_previous = {1};
  Schedule schedule = Simulate({gather, Compute(4, {0})}, 100, false);
  CHECK(schedule.seconds == Approx(700));
  CHECK(Sum(schedule.exposed_s) == Approx(300));
}

TEST_CASE("Waits and work add up to the time, whatever the trips", "[schedule]") {
  ScheduleNode last = Compute(2, {1, 2});
  ScheduleNode first = Compute(1);
  first.after_previous = {3};
  std::vector<ScheduleNode> nodes = {first, Aside(2.5, {0}), Compute(1.5, {0}), last,
                                     Aside(4, {3}, 2)};
  for (double trips : {1.0, 2.0, 3.0, 4.0, 5.0, 17.0}) {
    Schedule schedule = Simulate(nodes, trips, false);
    CHECK(schedule.seconds == Approx(trips * 4.5 + Sum(schedule.exposed_s)));
  }
}

TEST_CASE("Collectives slow compute down where they take its units", "[schedule]") {
  Schedule schedule = Simulate({Compute(10), Aside(4)}, 1, false, 0.25);
  // 4 s at three quarters, 7 s at full rate.
  CHECK(schedule.seconds == Approx(11));
  CHECK(schedule.exposed_s[1] == Approx(1));
}

TEST_CASE("The critical path leads to the end", "[schedule]") {
  Schedule schedule =
      Simulate({Compute(1), Aside(5, {0}), Compute(2, {0}), Compute(1, {1, 2})}, 1, false);
  std::vector<int32_t> critical;
  for (const ScheduledEvent& event : schedule.events) {
    if (event.is_critical) critical.push_back(event.node);
  }
  CHECK(critical == std::vector<int32_t>{0, 1, 3});
}

TEST_CASE("Nothing takes no time", "[schedule]") {
  CHECK(Simulate({}, 1, false).seconds == 0);
  CHECK(Simulate({Compute(0), Compute(0, {0})}, 5, false).seconds == 0);
  CHECK(Simulate({Compute(1)}, 0, false).seconds == 0);
}

}  // namespace
}  // namespace gshard
