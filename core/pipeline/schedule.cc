#include "core/pipeline/schedule.h"

#include <algorithm>
#include <functional>

#include "ir/diagnostic.h"

namespace gshard::pipeline {
namespace {

using Order = std::vector<ScheduledPass>;

void ForwardThenBackward(const Schedule& s, int64_t k, Order& order) {
  for (int64_t i = 0; i < s.microbatches; ++i) order.push_back({Pass::kForward, i, k});
  for (int64_t i = 0; i < s.microbatches; ++i) order.push_back({Pass::kBackward, i, k});
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

// Progress of every (pass, virtual stage, micro-batch).
class Progress {
 public:
  explicit Progress(const Schedule& s)
      : s_(s), done_(static_cast<size_t>(3 * s.virtual_stages() * s.microbatches), kNever) {}

  static constexpr double kNever = 1e300;
  double& At(Pass pass, int64_t v, int64_t i) {
    size_t kind = static_cast<size_t>(pass) - 1;
    return done_[(kind * static_cast<size_t>(s_.virtual_stages()) + static_cast<size_t>(v)) *
                     static_cast<size_t>(s_.microbatches) +
                 static_cast<size_t>(i)];
  }
  // When all that a pass needs is done; kNever: not yet known.
  double Ready(const ScheduledPass& p) {
    const int64_t last = s_.virtual_stages() - 1;
    switch (p.pass) {
      case Pass::kForward:
        return p.stage == 0 ? 0 : At(Pass::kForward, p.stage - 1, p.microbatch);
      case Pass::kBackward: {
        double ready = 0;
        if (p.stage < last) ready = At(Pass::kBackward, p.stage + 1, p.microbatch);
        if (p.stage < last || s_.has_forward_of_last) {
          return std::max(ready, At(Pass::kForward, p.stage, p.microbatch));
        }
        return p.stage == 0 ? 0 : At(Pass::kForward, p.stage - 1, p.microbatch);
      }
      case Pass::kWeights:
        return At(Pass::kBackward, p.stage, p.microbatch);
      case Pass::kNone:
        break;
    }
    return 0;
  }

 private:
  const Schedule& s_;
  std::vector<double> done_;
};

// ZB-H1: backward as soon as it can be, then forward while no more micro-batches are in flight
// than under 1F1B, else gradients of weights that were put off. All passes take one tick.
void ZeroBubble(Schedule& s) {
  const size_t devices = static_cast<size_t>(s.stages);
  std::vector<int64_t> forward(devices, 0), backward(devices, 0), weights(devices, 0);
  s.order.assign(devices, {});
  Progress progress(s);
  const bool folded = !s.has_forward_of_last;
  for (double now = 0;; ++now) {
    bool finished = true;
    for (int64_t k = 0; k < s.stages; ++k) {
      size_t d = static_cast<size_t>(k);
      const bool no_forward = folded && k == s.stages - 1;
      if (weights[d] < s.microbatches) finished = false;
      ScheduledPass choice;
      ScheduledPass b{Pass::kBackward, backward[d], k}, f{Pass::kForward, forward[d], k};
      int64_t started = no_forward ? backward[d] : forward[d];
      if (backward[d] < s.microbatches && (no_forward || backward[d] < forward[d]) &&
          progress.Ready(b) <= now) {
        choice = b;
      } else if (!no_forward && forward[d] < s.microbatches &&
                 started - backward[d] < s.stages - k && progress.Ready(f) <= now) {
        choice = f;
      } else if (weights[d] < backward[d]) {
        choice = {Pass::kWeights, weights[d], k};
      } else {
        continue;
      }
      (choice.pass == Pass::kForward    ? forward
       : choice.pass == Pass::kBackward ? backward
                                        : weights)[d]++;
      progress.At(choice.pass, choice.stage, choice.microbatch) = now + 1;
      s.order[d].push_back(choice);
    }
    if (finished) return;
  }
}

void MakeTicks(Schedule& s) {
  Progress progress(s);
  std::vector<size_t> next(s.order.size(), 0);
  for (double now = 0;; ++now) {
    std::vector<ScheduledPass> tick(s.order.size());
    bool any = false, left = false;
    for (size_t d = 0; d < s.order.size(); ++d) {
      if (next[d] == s.order[d].size()) continue;
      left = true;
      const ScheduledPass& p = s.order[d][next[d]];
      if (progress.Ready(p) > now) continue;
      tick[d] = p;
      any = true;
    }
    if (!left) return;
    CheckInternal(any, "a pipeline schedule waits for itself");
    for (size_t d = 0; d < tick.size(); ++d) {
      if (tick[d].pass == Pass::kNone) continue;
      ++next[d];
      progress.At(tick[d].pass, tick[d].stage, tick[d].microbatch) = now + 1;
    }
    s.ticks.push_back(std::move(tick));
  }
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
  if (s.kind == ScheduleKind::kZeroBubble && s.has_backward) {
    ZeroBubble(s);
  } else {
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
  }
  const int64_t last = s.virtual_stages() - 1;
  for (Order& order : s.order) {
    std::erase_if(order, [&](const ScheduledPass& p) {
      return (p.pass == Pass::kForward && p.stage == last && !s.has_forward_of_last) ||
             (p.pass != Pass::kForward && !s.has_backward);
    });
  }
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
  double busy = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t d = 0; d < devices; ++d) {
      while (next[d] < schedule.order[d].size()) {
        const ScheduledPass& p = schedule.order[d][next[d]];
        double ready = progress.Ready(p);
        if (ready == Progress::kNever) break;
        const std::vector<double>& of = p.pass == Pass::kForward    ? times.forward
                                        : p.pass == Pass::kBackward ? times.backward
                                                                    : times.weights;
        double start = std::max(ready, free[d]);
        double end = start + of[static_cast<size_t>(p.stage)];
        progress.At(p.pass, p.stage, p.microbatch) = free[d] = end;
        busy += end - start;
        simulation.devices[d].push_back({p, start, end});
        simulation.span = std::max(simulation.span, end);
        ++next[d];
        moved = true;
      }
    }
  }
  double area = simulation.span * static_cast<double>(devices);
  simulation.bubble_fraction = area > 0 ? (area - busy) / area : 0;
  return simulation;
}

BufferDepths DepthsOf(const Schedule& s) {
  Progress begin(s), end(s);
  for (size_t t = 0; t < s.ticks.size(); ++t) {
    for (const ScheduledPass& p : s.ticks[t]) {
      if (p.pass == Pass::kNone) continue;
      begin.At(p.pass, p.stage, p.microbatch) = static_cast<double>(t);
    }
  }
  const int64_t last = s.virtual_stages() - 1;
  using Tick = std::function<double(int64_t v, int64_t i)>;
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
  depths.forward_input = depth(
      1, last, [&](int64_t v, int64_t i) { return begin.At(Pass::kForward, v - 1, i); },
      of(final_pass));
  if (!s.has_backward) return depths;
  depths.backward_input = depth(
      0, last - 1, [&](int64_t v, int64_t i) { return begin.At(Pass::kBackward, v + 1, i); },
      of(final_pass));
  // Written by a pass of the device itself, before that tick's end.
  auto before = [&](Pass pass) {
    return [&begin, pass](int64_t v, int64_t i) {
      double t = begin.At(pass, v, i);
      return t == Progress::kNever ? t : t - 0.5;
    };
  };
  depths.saved = depth(0, last, before(Pass::kForward), of(final_pass));
  if (s.kind == ScheduleKind::kZeroBubble) {
    depths.delayed = depth(0, last, before(Pass::kBackward), of(Pass::kWeights));
  }
  return depths;
}

}  // namespace gshard::pipeline
