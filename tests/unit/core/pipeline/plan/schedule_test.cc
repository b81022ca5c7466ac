// Bubbles by simulation are the formulas of the papers; buffers are as deep as they must be.
#include "core/pipeline/plan/schedule.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

namespace gshard::pipeline {
namespace {

Simulation EqualStages(const Schedule& s, double forward, double backward, double weights) {
  size_t n = static_cast<size_t>(s.virtual_stages());
  return Simulate(s, {std::vector<double>(n, forward), std::vector<double>(n, backward),
                      std::vector<double>(n, weights)});
}

// Every pass of every micro-batch once, on its device, after what it needs.
void CheckComplete(const Schedule& s) {
  std::set<std::tuple<int, int64_t, int64_t>> done, late;  // late: that the last tick did not make
  size_t passes = 0;
  for (const auto& tick : s.ticks) {
    std::set<std::tuple<int, int64_t, int64_t>> now;
    for (size_t d = 0; d < tick.size(); ++d) {
      const ScheduledPass& p = tick[d];
      if (p.pass == Pass::kNone) continue;
      CHECK(p.stage % s.stages == static_cast<int64_t>(d));
      if (p.pass == Pass::kForward && p.stage > 0) {
        CHECK(done.count({1, p.stage - 1, p.microbatch}) == 1);
      }
      if (p.pass == Pass::kBackward && p.stage + 1 < s.virtual_stages()) {
        CHECK((s.holds_cotangents ? late : done).count({2, p.stage + 1, p.microbatch}) == 1);
      }
      if (p.pass == Pass::kRecompute) {
        // The last stage's is its forward pass.
        const int64_t from = p.stage + 1 < s.virtual_stages() ? p.stage : p.stage - 1;
        CHECK(done.count({1, from, p.microbatch}) == 1);
      } else if (p.pass == Pass::kBackward && s.has_recompute) {
        CHECK(done.count({4, p.stage, p.microbatch}) == 1);
      }
      if (p.pass == Pass::kWeights) CHECK(done.count({2, p.stage, p.microbatch}) == 1);
      now.insert({static_cast<int>(p.pass), p.stage, p.microbatch});
      ++passes;
    }
    late = done;
    done.insert(now.begin(), now.end());
  }
  size_t each = s.kind == ScheduleKind::kZeroBubble ? 3 : 2;
  const size_t microbatches = static_cast<size_t>(s.microbatches);
  const size_t stages = static_cast<size_t>(s.virtual_stages());
  size_t expected = stages * microbatches * each;
  if (!s.has_forward_of_last) expected -= microbatches;
  if (s.has_recompute) expected += stages * microbatches;
  CHECK(passes == expected);
  CHECK(done.size() == passes);
}

}  // namespace

TEST_CASE("The bubble of GPipe and 1F1B is (K-1)/(M+K-1)") {
  for (int64_t k : {1, 2, 4, 8, 16}) {
    for (int64_t m : {1, 2, 3, 8, 32}) {
      double expected = static_cast<double>(k - 1) / static_cast<double>(m + k - 1);
      for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B}) {
        Schedule s = MakeSchedule({.kind = kind, .stages = k, .microbatches = m});
        CheckComplete(s);
        CHECK(EqualStages(s, 1, 2, 0).bubble_fraction == Approx(expected).margin(1e-12));
      }
    }
  }
}

TEST_CASE("Waiting for who exchanges values costs no more than waiting for values") {
  const std::pair<ScheduleKind, int64_t> kinds[] = {{ScheduleKind::kGPipe, 1},
                                                    {ScheduleKind::k1F1B, 1},
                                                    {ScheduleKind::kInterleaved, 2},
                                                    {ScheduleKind::kInterleaved, 4}};
  for (auto [kind, repeats] : kinds) {
    for (int64_t k : {2, 3, 4, 8}) {
      for (int64_t m : {1, 2, 7, 8, 32}) {
        // Backward passes are three times as long as forward passes.
        const size_t stages = static_cast<size_t>(k * repeats);
        const PassTimes times{std::vector<double>(stages, 1), std::vector<double>(stages, 3),
                              std::vector<double>(stages, 0)};
        for (bool has_forward_of_last : {true, false}) {
          Schedule s = MakeSchedule({.kind = kind,
                                     .stages = k,
                                     .repeats = repeats,
                                     .microbatches = m,
                                     .has_forward_of_last = has_forward_of_last});
          CHECK(static_cast<int64_t>(s.ticks.size()) % s.period == 0);
          const double data = Simulate(s, times).span, ticks = SimulateTicks(s, times).span;
          CAPTURE(NameOf(kind), k, m, has_forward_of_last, data, ticks);
          CHECK(ticks >= data - 1e-9);
          // Backward passes of a last stage without forward passes could begin earlier: by no more
          // than two passes of each kind.
          const double slack = has_forward_of_last ? 0 : 2 * (1 + 3);
          const bool is_full = repeats == 1 || m % k == 0;
          if (is_full) CHECK(ticks <= data + slack + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("Under 1F1B neighbours exchange at every second tick, both ways") {
  Schedule s = MakeSchedule({.kind = ScheduleKind::k1F1B, .stages = 4, .microbatches = 8});
  REQUIRE(s.period == 2);
  CHECK(SendersOf(s, 0).forward == std::vector<bool>{true, false, true, false});
  CHECK(SendersOf(s, 0).backward == std::vector<bool>{false, true, false, true});
  CHECK(SendersOf(s, 1).forward == std::vector<bool>{false, true, false, false});
  CHECK(SendersOf(s, 1).backward == std::vector<bool>{false, false, true, false});
  CHECK(s.ticks.size() == 22);
}

TEST_CASE("R chunks a device: (K-1)/(R M + K-1)") {
  for (int64_t k : {2, 4, 8}) {
    for (int64_t r : {2, 3, 4}) {
      for (int64_t m : {k, 2 * k, 4 * k}) {
        Schedule s = MakeSchedule(
            {.kind = ScheduleKind::kInterleaved, .stages = k, .repeats = r, .microbatches = m});
        CheckComplete(s);
        double expected = static_cast<double>(k - 1) / static_cast<double>(r * m + k - 1);
        CHECK(EqualStages(s, 1, 2, 0).bubble_fraction == Approx(expected).margin(1e-12));
      }
      // Incomplete groups of micro-batches are legal, too.
      for (int64_t m : {1, 3, 5}) {
        CheckComplete(MakeSchedule(
            {.kind = ScheduleKind::kInterleaved, .stages = k, .repeats = r, .microbatches = m}));
      }
    }
  }
}

TEST_CASE("Between chunks what is handed on is on its way while a pass runs") {
  for (const bool has_forward_of_last : {true, false}) {
    const Schedule s = MakeSchedule({.kind = ScheduleKind::kInterleaved,
                                     .stages = 4,
                                     .repeats = 2,
                                     .microbatches = 8,
                                     .has_forward_of_last = has_forward_of_last});
    CHECK(s.overlaps_transfers);
    std::map<std::tuple<Pass, int64_t, int64_t>, size_t> tick_of;
    for (size_t t = 0; t < s.ticks.size(); ++t) {
      for (const ScheduledPass& p : s.ticks[t]) tick_of[{p.pass, p.stage, p.microbatch}] = t;
    }
    for (const auto& [pass, tick] : tick_of) {
      const auto [kind, stage, microbatch] = pass;
      if (kind == Pass::kNone) continue;
      const bool is_backward = kind == Pass::kBackward;
      if (const auto sent = tick_of.find({Pass::kForward, stage - 1, microbatch});
          (!is_backward || stage == s.virtual_stages() - 1) && sent != tick_of.end()) {
        CHECK(tick >= sent->second + 2);
      }
      if (const auto sent = tick_of.find({Pass::kBackward, stage + 1, microbatch});
          is_backward && sent != tick_of.end()) {
        CHECK(tick >= sent->second + 2);
      }
    }
    // An exchange that is shorter than a pass takes time where a device has nothing to do
    // meanwhile: while the pipeline fills and drains.
    const std::vector<double> ones(8, 1), twos(8, 2), zeros(8, 0);
    const double span = SimulateTicks(s, {ones, twos, zeros}).span;
    const double all = 0.5 * static_cast<double>(ExchangesOf(s));
    CHECK(SimulateTicks(s, {ones, twos, zeros, {}, 0.5}).span < span + 0.35 * all);
    CHECK(SimulateTicks(s, {ones, twos, zeros, {}, 5}).span > 1.5 * span);
  }
}

TEST_CASE("Chunks of a device share rows: 2(K-1) + (R-1)K + 1 of them") {
  for (int64_t k : {2, 4, 8}) {
    for (int64_t r : {2, 3, 4}) {
      CAPTURE(k, r);
      const int64_t m = 4 * k;
      const Schedule s = MakeSchedule(
          {.kind = ScheduleKind::kInterleaved, .stages = k, .repeats = r, .microbatches = m});
      const SharedRows rows = DepthsOf(s).saved_rows;
      CHECK(rows.count == 2 * (k - 1) + (r - 1) * k + 1);
      // No two values are in one row at a time.
      std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> held;  // by device, row
      for (const auto& tick : s.ticks) {
        for (const ScheduledPass& p : tick) {
          if (p.pass == Pass::kNone) continue;
          const int64_t row = rows.row[static_cast<size_t>(p.stage * m + p.microbatch)];
          const std::pair place(p.stage % k, row), value(p.stage, p.microbatch);
          if (p.pass == Pass::kForward) {
            CHECK(held.emplace(place, value).second);
          } else {
            CHECK(held[place] == value);
            held.erase(place);
          }
        }
      }
    }
  }
}

TEST_CASE("Zero-bubble: at most (K-1)/(3M+K-1) from M = K on") {
  for (int64_t k : {2, 4, 8, 16}) {
    for (int64_t m : {k, 2 * k, 32 * k}) {
      Schedule s =
          MakeSchedule({.kind = ScheduleKind::kZeroBubble, .stages = k, .microbatches = m});
      CheckComplete(s);
      double limit = static_cast<double>(k - 1) / static_cast<double>(3 * m + k - 1);
      CHECK(EqualStages(s, 1, 1, 1).bubble_fraction <= limit + 1e-12);
      // No more is kept than under 1F1B: K micro-batches, from forward pass to gradients of
      // weights.
      for (int64_t kept : MicrobatchesInFlight(s)) CHECK(kept <= k);
      CHECK(DepthsOf(s).saved <= k);
      CHECK(DepthsOf(s).delayed <= k);
      // Nobody waits for a longer pass than for its data.
      const std::vector<double> one(static_cast<size_t>(k), 1);
      CHECK(SimulateTicks(s, {one, one, one}).bubble_fraction <= limit + 1e-12);
    }
  }
}

TEST_CASE("Zero-bubble waits no longer than 1F1B, whatever the passes take") {
  const std::vector<std::tuple<double, double, double>> passes = {
      {1, 2, 1}, {1, 3, 1}, {1, 1.2, 0.8}, {1, 2.3, 0.7}, {1, 0.5, 1.5}, {1, 2, 0}};
  for (auto [forward, backward, weights] : passes) {
    for (int64_t k : {1, 2, 3, 4, 8}) {
      for (int64_t m : {1, 2, 7, 8, 32}) {
        for (bool recomputes : {false, true}) {
          for (double uneven : {0.0, 0.1}) {
            const size_t n = static_cast<size_t>(k);
            PassTimes times, whole;
            for (size_t v = 0; v < n; ++v) {
              const double scale = 1 + uneven * static_cast<double>(v * v % 5);
              times.forward.push_back(forward * scale);
              times.backward.push_back(backward * scale);
              times.weights.push_back(weights * scale);
              whole.backward.push_back((backward + weights) * scale);
            }
            whole.forward = times.forward, whole.weights.assign(n, 0);
            ScheduleOptions options{.kind = ScheduleKind::kZeroBubble,
                                    .stages = k,
                                    .microbatches = m,
                                    .has_forward_of_last = !recomputes,
                                    .times = times,
                                    .puts_off_weights = !recomputes};
            const Schedule zero = MakeSchedule(options);
            options.kind = ScheduleKind::k1F1B;
            const Schedule one = MakeSchedule(options);
            CAPTURE(forward, backward, weights, k, m, recomputes, uneven);
            CHECK(SimulateTicks(zero, times).span <= SimulateTicks(one, whole).span + 1e-9);
            CHECK(Simulate(zero, times).span <= Simulate(one, whole).span + 1e-9);
            for (int64_t kept : MicrobatchesDelayed(zero)) CHECK(kept <= (recomputes ? 1 : k));
            for (int64_t kept : MicrobatchesInFlight(zero)) CHECK(kept <= k);
          }
        }
      }
    }
  }
}

TEST_CASE("1F1B keeps at most K micro-batches, GPipe all") {
  for (int64_t k : {2, 4, 8}) {
    Schedule one = MakeSchedule({.kind = ScheduleKind::k1F1B, .stages = k, .microbatches = 32});
    CHECK(DepthsOf(one).forward_input <= k);
    CHECK(DepthsOf(one).saved <= k);
    Schedule gpipe = MakeSchedule({.kind = ScheduleKind::kGPipe, .stages = k, .microbatches = 32});
    CHECK(DepthsOf(gpipe).saved == 32);
  }
}

TEST_CASE("GPipe's first recomputation is hidden in the wait for the gradient") {
  // Forward 1, recompute 1, backward 2; the last stage's forward pass is no other than what it
  // recomputes.
  // The paper's M = 32 row: throughput 1 : 1.89 : 3.50 for K = 2, 4, 8.
  auto simulate = [](int64_t k, bool apart, bool by_ticks) {
    const size_t n = static_cast<size_t>(k);
    const Schedule s = MakeSchedule({.kind = ScheduleKind::kGPipe,
                                     .stages = k,
                                     .microbatches = 32,
                                     .has_forward_of_last = false,
                                     .has_recompute = apart});
    CheckComplete(s);
    CHECK(DepthsOf(s).saved == (apart ? 1 : 32));
    PassTimes times{std::vector<double>(n, 1), std::vector<double>(n, apart ? 2 : 3),
                    std::vector<double>(n, 0), std::vector<double>(n, 1)};
    if (!apart) times.backward.back() = 3;
    return by_ticks ? SimulateTicks(s, times) : Simulate(s, times);
  };
  for (int64_t k : {2, 3, 4, 8, 16}) {
    CAPTURE(k);
    // One recomputation of each stage but one less to wait for.
    const double apart = static_cast<double>(4 * 32 + 3 * (k - 2));
    CHECK(simulate(k, true, false).span == Approx(apart));
    CHECK(simulate(k, false, false).span == Approx(apart + static_cast<double>(k - 2)));
    CHECK(simulate(k, true, true).span <= apart + 3);
  }
  auto throughput = [&](int64_t k) {
    return static_cast<double>(k) / simulate(k, true, false).span;
  };
  CHECK(throughput(4) / throughput(2) == Approx(1.89).epsilon(0.02));
  CHECK(throughput(8) / throughput(2) == Approx(3.50).epsilon(0.01));
}

TEST_CASE("Zero-bubble: passes that take unlike times are waited for no more than their data is") {
  const std::vector<std::tuple<double, double, double>> passes = {
      {1, 1, 1}, {1.07, 1.04, 1}, {1, 1.1, 0.95}, {1.2, 1.1, 1}};
  for (auto [forward, backward, weights] : passes) {
    for (int64_t k : {2, 3, 4, 8}) {
      for (int64_t m : {k, 2 * k, 8 * k}) {
        const auto n = static_cast<size_t>(k);
        const PassTimes times{std::vector<double>(n, forward),
                              std::vector<double>(n, backward),
                              std::vector<double>(n, weights),
                              {}};
        const Schedule s = MakeSchedule(
            {.kind = ScheduleKind::kZeroBubble, .stages = k, .microbatches = m, .times = times});
        CheckComplete(s);
        CAPTURE(forward, backward, weights, k, m);
        // With K micro-batches in flight no step is shorter.
        const double least = static_cast<double>(m) * (forward + backward + weights) +
                             static_cast<double>(k - 1) * (forward + backward - weights);
        CHECK(SimulateTicks(s, times).span == Approx(least));
        // Neighbours meet as often as under 1F1B, but for the tick that ends a turn.
        const Schedule one =
            MakeSchedule({.kind = ScheduleKind::k1F1B, .stages = k, .microbatches = m});
        CHECK(ExchangesOf(s) <= ExchangesOf(one) + 4);
        CHECK(DepthsOf(s).backward_input <= 3);
      }
    }
  }
}

TEST_CASE("Neighbours wait for an exchange, and orders with few of them are taken", "[pipeline]") {
  for (const int64_t k : {2, 4}) {
    const std::vector<double> one(static_cast<size_t>(k), 1);
    const PassTimes free{one, one, one, {}}, costly{one, one, one, {}, 0.5};
    ScheduleOptions options{
        .kind = ScheduleKind::k1F1B, .stages = k, .microbatches = 32, .times = free};
    const Schedule alternating = MakeSchedule(options);
    CHECK(ExchangesOf(alternating) > 0);
    CHECK(ExchangesOf(alternating) <= std::ssize(alternating.ticks));
    CHECK(SimulateTicks(alternating, costly).span > SimulateTicks(alternating, free).span);
    options.kind = ScheduleKind::kZeroBubble;
    const Schedule by_passes = MakeSchedule(options);
    options.times = costly;
    const Schedule by_both = MakeSchedule(options);
    CAPTURE(k, ExchangesOf(by_passes), ExchangesOf(by_both));
    // Of orders that take equally long one with few exchanges is taken though they cost nothing.
    CHECK(ExchangesOf(by_passes) <= ExchangesOf(alternating) + 2);
    CHECK(ExchangesOf(by_both) <= ExchangesOf(by_passes));
    CHECK(SimulateTicks(by_both, costly).span <= SimulateTicks(by_passes, costly).span + 1e-9);
    CHECK(SimulateTicks(by_passes, free).span <= SimulateTicks(by_both, free).span + 1e-9);
  }
}

}  // namespace gshard::pipeline
