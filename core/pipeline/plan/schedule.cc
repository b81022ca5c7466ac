#include "core/pipeline/plan/schedule.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>

#include "core/pipeline/plan/schedule_progress.h"
#include "core/pipeline/plan/zero_bubble.h"
#include "ir/diagnostic.h"

namespace gshard::pipeline {
namespace {

using Order = std::vector<ScheduledPass>;

void ForwardThenBackward(const Schedule& s, int64_t k, Order& order) {
  for (int64_t i = 0; i < s.microbatches; ++i) order.push_back({Pass::kForward, i, k});
  for (int64_t i = 0; i < s.microbatches; ++i) {
    if (s.has_recompute) order.push_back({Pass::kRecompute, i, k});
    order.push_back({Pass::kBackward, i, k});
  }
}

void OneForwardOneBackward(const Schedule& s, int64_t k, Order& order) {
  int64_t warmup = std::min(s.stages - 1 - k, s.microbatches);
  for (int64_t i = 0; i < warmup; ++i) order.push_back({Pass::kForward, i, k});
  for (int64_t i = 0; i < s.microbatches; ++i) {
    if (warmup + i < s.microbatches) order.push_back({Pass::kForward, warmup + i, k});
    order.push_back({Pass::kBackward, i, k});
  }
}

// Groups of K micro-batches go through all chunks in turn. An incomplete last group is planned as
// if it were complete, and the passes of micro-batches that there are not are left out.
void Interleaved(const Schedule& s, int64_t k, Order& order) {
  const int64_t groups = (s.microbatches + s.stages - 1) / s.stages;
  const int64_t count = groups * s.stages * s.repeats;
  const int64_t warmup = std::min((s.stages - k - 1) * 2 + (s.repeats - 1) * s.stages, count);
  auto add = [&](Pass pass, int64_t i) {
    int64_t chunk = (i / s.stages) % s.repeats;
    if (pass == Pass::kBackward) chunk = s.repeats - 1 - chunk;
    int64_t microbatch = i / (s.stages * s.repeats) * s.stages + i % s.stages;
    if (microbatch < s.microbatches) order.push_back({pass, microbatch, chunk * s.stages + k});
  };
  for (int64_t i = 0; i < count + warmup; ++i) {
    if (i < count) add(Pass::kForward, i);
    if (i >= warmup) add(Pass::kBackward, i - warmup);
  }
}

// Passes get ticks by parity where that keeps long ones from being waited for; see schedule.h.
int64_t PeriodOf(const Schedule& s) {
  const bool alternates =
      s.kind == ScheduleKind::k1F1B || s.kind == ScheduleKind::kInterleaved || s.has_recompute;
  return alternates && s.has_backward && s.stages > 1 ? 2 : 1;
}

// What a device has left to do, and the tick of its latest backward pass.
struct PassesLeft {
  int64_t forward = 0, backward = 0, latest_backward = -1;
};

// Where cotangents are held, neighbours meet after every second tick: stage k meets the next stage
// in its own half of a turn of four ticks, the stage before in the other half. Forward passes come
// right before the one meeting, backward passes right after it, and gradients of weights between
// them and the other. Without forward passes gradients of weights take their place, or any once all
// cotangents are handed on: so nobody waits for them.
bool MayRunHeld(const ScheduledPass& p, int64_t tick, const PassesLeft& left) {
  const bool is_own_half = (tick / 2 + p.stage) % 2 == 0, meets = tick % 2 == 1;
  if (p.pass == Pass::kForward) return is_own_half && meets;
  if (p.pass == Pass::kBackward) return !is_own_half && !meets;
  if (left.forward > 0) return !is_own_half && meets;
  return is_own_half || (meets && left.backward == 0 && left.latest_backward + 1 < tick);
}

bool MayRunAt(const Schedule& s, const ScheduledPass& p, int64_t tick, int64_t forwards_left) {
  if (s.stages == 1) return true;
  if (s.kind == ScheduleKind::kGPipe && p.pass == Pass::kBackward && forwards_left > 0)
    return false;
  if (s.period == 1) return true;
  if (s.period == 3) {  // a forward pass, a backward pass and gradients of weights by turns
    const int64_t turn = (tick + 3 * s.stages - p.stage) % 3;
    return p.pass == Pass::kWeights || turn == (p.pass == Pass::kBackward ? 1 : 0);
  }
  if (s.period == 4) {  // every second tick is of gradients of weights, and nobody hands on then
    if (p.pass == Pass::kWeights || tick % 2 == 1)
      return (p.pass == Pass::kWeights) == (tick % 2 == 1);
    tick /= 2;
  } else if (p.pass == Pass::kWeights) {
    return true;
  }
  const int64_t device = s.repeats == 1 ? p.stage : 0;
  return (tick + device + (p.pass == Pass::kBackward ? 1 : 0)) % 2 == 0;
}

void MakeTicks(Schedule& s) {
  Progress progress(s);
  std::vector<size_t> next(s.order.size(), 0);
  std::vector<PassesLeft> left_of;  // by device
  int64_t forwards_left = 0;
  for (const Order& order : s.order) {
    left_of.push_back({std::ranges::count(order, Pass::kForward, &ScheduledPass::pass),
                       std::ranges::count(order, Pass::kBackward, &ScheduledPass::pass)});
    forwards_left += left_of.back().forward;
  }
  const auto held = static_cast<double>(s.ticks_held());
  const auto on_the_way = static_cast<double>(s.ticks_on_the_way());
  int64_t idle_ticks = 0;
  for (int64_t now = 0;; ++now) {
    std::vector<ScheduledPass> tick(s.order.size());
    bool any = false, left = false;
    for (size_t d = 0; d < s.order.size(); ++d) {
      if (next[d] == s.order[d].size()) continue;
      left = true;
      const ScheduledPass& p = s.order[d][next[d]];
      if (progress.Ready(p, held, on_the_way) > static_cast<double>(now)) continue;
      const bool may =
          s.holds_cotangents ? MayRunHeld(p, now, left_of[d]) : MayRunAt(s, p, now, forwards_left);
      if (!may) continue;
      tick[d] = p;
      any = true;
    }
    if (!left && now % s.period == 0) return;
    idle_ticks = any || !left ? 0 : idle_ticks + 1;
    CheckInternal(idle_ticks < s.period + s.ticks_held() + s.ticks_on_the_way(),
                  "a pipeline schedule waits for itself");
    for (size_t d = 0; d < tick.size(); ++d) {
      if (tick[d].pass == Pass::kNone) continue;
      ++next[d];
      progress.At(tick[d].pass, tick[d].stage, tick[d].microbatch) = static_cast<double>(now) + 1;
      if (tick[d].pass == Pass::kForward) --left_of[d].forward, --forwards_left;
      if (tick[d].pass == Pass::kBackward) --left_of[d].backward, left_of[d].latest_backward = now;
    }
    s.ticks.push_back(std::move(tick));
  }
}

double TimeOf(const ScheduledPass& p, const PassTimes& times) {
  const std::vector<double>& of = p.pass == Pass::kForward    ? times.forward
                                  : p.pass == Pass::kBackward ? times.backward
                                  : p.pass == Pass::kWeights  ? times.weights
                                                              : times.recompute;
  return of[static_cast<size_t>(p.stage)];
}

void SetBubble(Simulation& simulation) {
  double busy = 0;
  for (const auto& passes : simulation.devices) {
    for (const SimulatedPass& pass : passes) {
      busy += pass.end - pass.start;
      simulation.span = std::max(simulation.span, pass.end);
    }
  }
  const double area = simulation.span * static_cast<double>(simulation.devices.size());
  simulation.bubble_fraction = area > 0 ? (area - busy) / area : 0;
}

// The order whose ticks take least, of those that take equally long one with few exchanges. What is
// put off fills gaps where passes are about alike; what is not is done best after the exchange with
// the neighbours, in ticks of its own.
Schedule BestZeroBubble(Schedule s, PassTimes times, bool puts_off) {
  if (times.forward.empty()) {
    const std::vector<double> alike(static_cast<size_t>(s.stages), 1);
    times = {alike, alike, alike, {}};
  }
  Schedule best;
  double least = Progress::kNever;
  for (DeviceOrders& orders : ZeroBubbleOrders(s, times, puts_off)) {
    s.order = std::move(orders);
    for (auto [period, holds] :
         {std::pair{4, true}, {1, false}, {2, false}, {3, false}, {4, false}}) {
      if (s.stages == 1 && period > 1) continue;
      s.period = period;
      s.holds_cotangents = holds;
      s.ticks.clear();
      MakeTicks(s);
      const double span = SimulateTicks(s, times).span;
      if (span >= least * (1 - 1e-9)) continue;
      least = span;
      best = s;
    }
  }
  return best;
}

}  // namespace

Schedule MakeSchedule(const ScheduleOptions& options) {
  Schedule s;
  s.kind = options.kind;
  s.stages = options.stages;
  s.repeats = options.repeats;
  s.microbatches = options.microbatches;
  s.has_forward_of_last = options.has_forward_of_last || !options.has_backward;
  s.has_backward = options.has_backward;
  s.has_recompute = options.has_recompute;
  if (s.kind == ScheduleKind::kZeroBubble && s.has_backward) {
    return BestZeroBubble(std::move(s), options.times, options.puts_off_weights);
  }
  for (int64_t k = 0; k < s.stages; ++k) {
    Order order;
    if (s.repeats > 1) {
      Interleaved(s, k, order);
    } else if (s.kind == ScheduleKind::kGPipe || s.kind == ScheduleKind::kShift) {
      ForwardThenBackward(s, k, order);
    } else {
      OneForwardOneBackward(s, k, order);
    }
    s.order.push_back(std::move(order));
  }
  const int64_t last = s.virtual_stages() - 1;
  for (Order& order : s.order) {
    std::erase_if(order, [&](const ScheduledPass& p) {
      return (p.pass == Pass::kForward && p.stage == last && !s.has_forward_of_last) ||
             (p.pass != Pass::kForward && !s.has_backward);
    });
  }
  s.period = PeriodOf(s);
  s.overlaps_transfers = s.repeats > 1 && s.period == 2;
  MakeTicks(s);
  return s;
}

Simulation Simulate(const Schedule& schedule, const PassTimes& times) {
  Progress progress(schedule);
  Simulation simulation;
  const size_t devices = schedule.order.size();
  simulation.devices.resize(devices);
  std::vector<size_t> next(devices, 0);
  std::vector<double> free(devices, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t d = 0; d < devices; ++d) {
      while (next[d] < schedule.order[d].size()) {
        const ScheduledPass& p = schedule.order[d][next[d]];
        double ready = progress.Ready(p);
        if (ready == Progress::kNever) break;
        double start = std::max(ready, free[d]);
        double end = start + TimeOf(p, times);
        progress.At(p.pass, p.stage, p.microbatch) = free[d] = end;
        simulation.devices[d].push_back({p, start, end});
        ++next[d];
        moved = true;
      }
    }
  }
  SetBubble(simulation);
  return simulation;
}

Simulation SimulateTicks(const Schedule& schedule, const PassTimes& times) {
  const size_t devices = schedule.order.size();
  std::vector<Senders> senders;
  for (int64_t phase = 0; phase < schedule.period; ++phase) {
    senders.push_back(SendersOf(schedule, phase));
  }
  Simulation simulation;
  simulation.devices.resize(devices);
  std::vector<double> free(devices, 0);
  std::vector<std::vector<double>> ends;  // of each tick, by device
  for (size_t t = 0; t < schedule.ticks.size(); ++t) {
    std::vector<double> end = free;
    for (size_t d = 0; d < devices; ++d) {
      const ScheduledPass& p = schedule.ticks[t][d];
      if (p.pass == Pass::kNone) continue;
      end[d] += TimeOf(p, times);
      simulation.devices[d].push_back({p, free[d], end[d]});
    }
    free = end;
    ends.push_back(std::move(end));
    // The exchange that has to be over now: this tick's, or one that was on its way.
    const auto on_the_way = static_cast<size_t>(schedule.ticks_on_the_way());
    if (t < on_the_way) continue;
    const std::vector<double>& sent = ends[t - on_the_way];
    const Senders& phase = senders[(t - on_the_way) % senders.size()];
    for (size_t d = 0; d < devices; ++d) {
      const size_t next = (d + 1) % devices;
      if (!phase.forward[d] && !phase.backward[next]) continue;
      free[d] = std::max(free[d], sent[next] + times.exchange);
      free[next] = std::max(free[next], sent[d] + times.exchange);
    }
  }
  SetBubble(simulation);
  return simulation;
}

int64_t ExchangesOf(const Schedule& schedule) {
  int64_t ticks = 0;
  for (int64_t phase = 0; phase < schedule.period; ++phase) {
    const Senders senders = SendersOf(schedule, phase);
    if (std::ranges::count(senders.forward, true) + std::ranges::count(senders.backward, true) > 0)
      ticks += std::ssize(schedule.ticks) / schedule.period;
  }
  return ticks;
}

Senders SendersOf(const Schedule& s, int64_t phase) {
  Senders senders{std::vector<bool>(static_cast<size_t>(s.stages), false),
                  std::vector<bool>(static_cast<size_t>(s.stages), false)};
  const int64_t last = s.virtual_stages() - 1;
  for (int64_t t = 0; t < std::ssize(s.ticks); ++t) {
    const bool now = t % s.period == phase, late = (t + s.ticks_held()) % s.period == phase;
    const std::vector<ScheduledPass>& tick = s.ticks[static_cast<size_t>(t)];
    for (size_t d = 0; d < tick.size(); ++d) {
      const ScheduledPass& p = tick[d];
      if (now && p.pass == Pass::kForward && p.stage < last) senders.forward[d] = true;
      if (late && p.pass == Pass::kBackward && p.stage > 0) senders.backward[d] = true;
    }
  }
  return senders;
}

std::vector<int64_t> MicrobatchesInFlight(const Schedule& s) {
  const size_t count = static_cast<size_t>(s.virtual_stages());
  std::vector<int64_t> now(count, 0), most(count, 1);
  const Pass last = !s.has_backward                       ? Pass::kForward
                    : s.kind == ScheduleKind::kZeroBubble ? Pass::kWeights
                                                          : Pass::kBackward;
  for (const auto& order : s.order) {
    for (const ScheduledPass& p : order) {
      const size_t v = static_cast<size_t>(p.stage);
      if (p.pass == Pass::kForward) most[v] = std::max(most[v], ++now[v]);
      if (p.pass == last && now[v] > 0) --now[v];
    }
  }
  return most;
}

std::vector<int64_t> MicrobatchesDelayed(const Schedule& s) {
  std::vector<int64_t> now(static_cast<size_t>(s.virtual_stages()), 0), most = now;
  if (s.kind != ScheduleKind::kZeroBubble || !s.has_backward) return most;
  for (const auto& order : s.order) {
    for (const ScheduledPass& p : order) {
      const size_t v = static_cast<size_t>(p.stage);
      if (p.pass == Pass::kBackward) most[v] = std::max(most[v], ++now[v]);
      if (p.pass == Pass::kWeights) --now[v];
    }
  }
  return most;
}

namespace {

using Tick = std::function<double(int64_t v, int64_t i)>;

// A value in a buffer: it takes its row after tick `from`, which is free again after tick `to`.
struct HeldValue {
  double from, to;
  size_t at;
};

// Of one device, in the order in which they take their rows.
std::vector<HeldValue> HeldValues(const Schedule& s, int64_t device, const Tick& from,
                                  const Tick& to) {
  std::vector<HeldValue> values;
  for (int64_t v = device; v < s.virtual_stages(); v += s.stages) {
    for (int64_t i = 0; i < s.microbatches; ++i) {
      if (from(v, i) == Progress::kNever) continue;
      values.push_back({from(v, i), to(v, i), static_cast<size_t>(v * s.microbatches + i)});
    }
  }
  std::ranges::sort(values, {}, &HeldValue::from);
  return values;
}

// Of all free rows the one that has been so longest, so that all devices come to the same order.
SharedRows ShareRows(const Schedule& s, const Tick& from, const Tick& to) {
  SharedRows rows;
  rows.row.assign(static_cast<size_t>(s.virtual_stages() * s.microbatches), 0);
  using Release = std::pair<double, int64_t>;  // tick, row
  using Held = std::priority_queue<Release, std::vector<Release>, std::greater<>>;
  for (int64_t device = 0; device < s.stages; ++device) {
    Held held;
    for (const HeldValue& value : HeldValues(s, device, from, to)) {
      while (!held.empty() && held.top().first <= value.from) held.pop();
      held.push({value.to, 0});
      rows.count = std::max(rows.count, static_cast<int64_t>(held.size()));
    }
  }
  for (int64_t device = 0; device < s.stages; ++device) {
    Held held;
    std::deque<int64_t> free;
    for (int64_t row = 0; row < rows.count; ++row) free.push_back(row);
    for (const HeldValue& value : HeldValues(s, device, from, to)) {
      for (; !held.empty() && held.top().first <= value.from; held.pop()) {
        free.push_back(held.top().second);
      }
      rows.row[value.at] = free.front();
      held.push({value.to, free.front()});
      free.pop_front();
    }
  }
  rows.count = std::max<int64_t>(rows.count, 1);
  return rows;
}

}  // namespace

BufferDepths DepthsOf(const Schedule& s) {
  Progress begin(s), end(s);
  for (size_t t = 0; t < s.ticks.size(); ++t) {
    for (const ScheduledPass& p : s.ticks[t]) {
      if (p.pass == Pass::kNone) continue;
      begin.At(p.pass, p.stage, p.microbatch) = static_cast<double>(t);
    }
  }
  const int64_t last = s.virtual_stages() - 1;
  auto of = [&](Pass pass) {
    return [&begin, pass](int64_t v, int64_t i) { return begin.At(pass, v, i); };
  };
  // `from` is the tick after which a value is stored, `to` the last that reads it.
  auto depth = [&](int64_t first_stage, int64_t last_stage, const Tick& from, const Tick& to) {
    int64_t most = 1;
    for (int64_t v = first_stage; v <= last_stage; ++v) {
      int64_t oldest = 0;
      for (int64_t i = 0; i < s.microbatches; ++i) {
        double start = from(v, i);
        if (start == Progress::kNever) continue;
        while (oldest < i && to(v, oldest) != Progress::kNever && to(v, oldest) <= start) ++oldest;
        most = std::max(most, i - oldest + 1);
      }
    }
    return most;
  };
  BufferDepths depths;
  const Pass final_pass = !s.has_backward                       ? Pass::kForward
                          : s.kind == ScheduleKind::kZeroBubble ? Pass::kWeights
                                                                : Pass::kBackward;
  // The gradients of weights read the stage's input and what the forward pass saved, too.
  const Tick arrival = [&](int64_t v, int64_t i) {
    return v == 0 ? Progress::kNever : begin.At(Pass::kForward, v - 1, i);
  };
  depths.forward_input = depth(1, last, arrival, of(final_pass));
  if (!s.has_backward) return depths;
  if (s.repeats > 1 && !s.has_forward_of_last) {
    // The first stage's as if it were handed its examples: so rows come round alike on all devices.
    const Tick begun = [&](int64_t v, int64_t i) {
      return v == 0 ? begin.At(Pass::kForward, v, i) - 0.5 : arrival(v, i);
    };
    depths.forward_rows = ShareRows(s, begun, of(final_pass));
  }
  const Tick cotangent = [&](int64_t v, int64_t i) {
    return begin.At(Pass::kBackward, v + 1, i) + static_cast<double>(s.ticks_held());
  };
  depths.backward_input = depth(0, last - 1, cotangent, of(Pass::kBackward));
  // Written by a pass of the device itself, before that tick's end.
  auto before = [&](Pass pass) {
    return [&begin, pass](int64_t v, int64_t i) {
      double t = begin.At(pass, v, i);
      return t == Progress::kNever ? t : t - 0.5;
    };
  };
  const Tick saving = before(s.has_recompute ? Pass::kRecompute : Pass::kForward);
  depths.saved = depth(0, last, saving, of(final_pass));
  if (s.repeats > 1 && s.has_forward_of_last) {
    depths.saved_rows = ShareRows(s, saving, of(final_pass));
  }
  if (s.kind == ScheduleKind::kZeroBubble) {
    depths.delayed = depth(0, last, before(Pass::kBackward), of(Pass::kWeights));
  }
  return depths;
}

}  // namespace gshard::pipeline
