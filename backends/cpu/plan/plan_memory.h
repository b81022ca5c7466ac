// What a plan needs of memory, for reports and refusals.
#ifndef GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_
#define GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/plan/program.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"

namespace gshard::cpu {

// What one device of the real mesh would hold and what the emulator holds.
struct PlanMemory {
  int64_t persistent_bytes = 0;   // parameters, known values
  int64_t transient_bytes = 0;    // everything with a lifetime, packed
  int64_t lower_bound_bytes = 0;  // of transient_bytes
  int64_t arena_bytes() const { return persistent_bytes + transient_bytes; }
  int64_t device_peak_bytes = 0;  // largest sum of live values on one device, no sharing
  struct LiveBuffer {
    ValueId value = kNoValue;
    int64_t bytes = 0;  // of all its instances
  };
  // If more than PlanOptions::memory_limit is needed: the largest at the time when most is.
  std::vector<LiveBuffer> largest;
};

// One device's live bytes if every value had a buffer of its own, operation by operation.
int64_t DevicePeakBytes(const Program& program, const Schedule& schedule,
                        const StorageAssignment& storage);

// The largest buffers that are alive when most bytes are, with the parameters; the largest first.
std::vector<PlanMemory::LiveBuffer> LargestBuffers(const Program& program,
                                                   const StorageAssignment& storage);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_
