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

  void Buffer(Pass pass) {
    for (int64_t tick = 0; tick < clock_.ticks(); ++tick) {
      const int64_t at = pass == Pass::kForward ? tick : clock_.ticks() - 1 - tick;
      double longest = 0;
      for (int64_t k = 0; k < clock_.stages; ++k) {
        ShiftClock::Work work = clock_.At(at, k);
        // Padding takes as long as work.
        const int64_t v = work.repeat * clock_.stages + k + 1;
        longest = std::max(longest, TimeOf(pass, v));
        if (work.is_valid) Run(k, {pass, work.microbatch, v}, TimeOf(pass, v));
      }
      now_ += longest;
    }
  }

  Simulation Finish() {
    result_.span = now_;
    const double area = now_ * static_cast<double>(clock_.stages);
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
    busy_ += duration;
  }

  const ShiftClock& clock_;
  const PassTimes& times_;
  Simulation result_;
  double now_ = 0, busy_ = 0;
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
