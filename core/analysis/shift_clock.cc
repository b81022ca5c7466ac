// See shift_clock.h.

#include "core/analysis/shift_clock.h"

namespace gshard {

ShiftClock::Work ShiftClock::At(int64_t tick, int64_t stage) const {
  Work work;
  const int64_t since = tick - stage;
  if (since < 0 || since > last_start()) return work;
  const int64_t within = since % group_ticks();
  work.microbatch = since / group_ticks() * stages + within % stages;
  work.repeat = within / stages;
  work.is_valid = work.microbatch < microbatches;
  return work;
}

}  // namespace gshard
