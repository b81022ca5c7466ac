#include "core/pipeline/plan/shift_schedule.h"

#include <algorithm>

namespace gshard::pipeline {

namespace {

class ShiftSimulator {
 public:
  ShiftSimulator(const ShiftClock& clock, const PassTimes& times) : clock_(clock), times_(times) {
    result_.devices.resize(static_cast<size_t>(clock.stages));
  }

  // The layers outside the buffer, K micro-batches at a time.
  void Outside(Pass pass, int64_t v) {
    const double duration = TimeOf(pass, v);
    for (int64_t group = 0; group < clock_.groups(); ++group) {
      for (int64_t k = 0; k < clock_.stages; ++k) {
        int64_t i = group * clock_.stages + k;
        if (i < clock_.microbatches) Run(k, {pass, i, v}, duration);
      }
      now_ += duration;
    }
  }

  // All stages run one function, padding or not: what it takes is what the longest of them needs.
  void Buffer(Pass pass) {
    double duration = 0;
    for (int64_t v = 1; v <= clock_.group_ticks(); ++v) {
      duration = std::max(duration, TimeOf(pass, v));
    }
    for (int64_t tick = 0; tick < clock_.ticks(); ++tick) {
      const int64_t at = pass == Pass::kForward ? tick : clock_.ticks() - 1 - tick;
      for (int64_t k = 0; k < clock_.stages; ++k) {
        ShiftClock::Work work = clock_.At(at, k);
        if (!work.is_valid) continue;
        Run(k, {pass, work.microbatch, work.repeat * clock_.stages + k + 1}, duration);
        busy_ += duration;
      }
      now_ += duration;
      buffer_span_ += duration;
    }
  }

  Simulation Finish() {
    result_.span = now_;
    const double area = buffer_span_ * static_cast<double>(clock_.stages);
    result_.bubble_fraction = area > 0 ? (area - busy_) / area : 0;
    return std::move(result_);
  }

 private:
  double TimeOf(Pass pass, int64_t v) const {
    const auto& of = pass == Pass::kForward ? times_.forward : times_.backward;
    return of[static_cast<size_t>(v)];
  }
  void Run(int64_t k, ScheduledPass pass, double duration) {
    result_.devices[static_cast<size_t>(k)].push_back({pass, now_, now_ + duration});
  }

  const ShiftClock& clock_;
  const PassTimes& times_;
  Simulation result_;
  double now_ = 0, buffer_span_ = 0;
  double busy_ = 0;  // of all stages, within the buffer
};

}  // namespace

Simulation SimulateShift(const ShiftClock& clock, const PassTimes& times, bool has_backward) {
  ShiftSimulator simulator(clock, times);
  const int64_t last = clock.group_ticks() + 1;
  simulator.Outside(Pass::kForward, 0);
  simulator.Buffer(Pass::kForward);
  if (!has_backward) {
    simulator.Outside(Pass::kForward, last);
    return simulator.Finish();
  }
  simulator.Outside(Pass::kBackward, last);
  simulator.Buffer(Pass::kBackward);
  simulator.Outside(Pass::kBackward, 0);
  return simulator.Finish();
}

}  // namespace gshard::pipeline
