// GSPMD's shifting buffer (GSPMD paper, section 3.3) and its circular form as a clock: every stage
// computes at every tick, and what it has at each tick follows from the tick and the stage alone.
//
//   K = 4, M = 6, R = 1      tick 0 1 2 3 4 5 6 7 8
//                    stage 0      0 1 2 3 4 5 . . .
//                    stage 1      . 0 1 2 3 4 5 . .      . computes on padding
//
// With R repeats micro-batches come in groups of K that go R times around the ring: R*M + K - 1
// ticks where K divides M. The backward pass is the forward pass with time reversed. Tested by
// tests/unit/core/pipeline/plan/shift_schedule_test.cc.
#ifndef GSHARD_CORE_ANALYSIS_SHIFT_CLOCK_H_
#define GSHARD_CORE_ANALYSIS_SHIFT_CLOCK_H_

#include <cstdint>

namespace gshard {

struct ShiftClock {
  int64_t stages = 1, repeats = 1, microbatches = 1;

  // K micro-batches each; the last may be incomplete.
  int64_t groups() const { return (microbatches + stages - 1) / stages; }
  int64_t group_ticks() const { return stages * repeats; }
  // Micro-batches of the last group, less one.
  int64_t last_member() const { return (microbatches - 1) % stages; }
  // Stage 0 has work at the ticks up to this one.
  int64_t last_start() const {
    return (groups() - 1) * group_ticks() + (repeats - 1) * stages + last_member();
  }
  int64_t ticks() const { return last_start() + stages; }

  struct Work {
    bool is_valid = false;  // false: padding
    int64_t microbatch = 0, repeat = 0;
  };
  Work At(int64_t tick, int64_t stage) const;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_SHIFT_CLOCK_H_
