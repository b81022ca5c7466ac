// What a plan needs of memory, for reports and refusals.
#ifndef GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_
#define GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/plan/kept_instances.h"
#include "backends/cpu/plan/program.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"

namespace gshard::cpu {

// What one device of the real mesh would hold and what the emulator holds, on this rank.
struct PlanMemory {
  int64_t persistent_bytes = 0;   // parameters, known values
  int64_t transient_bytes = 0;    // everything with a lifetime, packed
  int64_t lower_bound_bytes = 0;  // of transient_bytes
  int64_t arena_bytes() const { return persistent_bytes + transient_bytes; }
  int64_t device_peak_bytes = 0;  // largest sum of live values on one device, no sharing
  struct LiveBuffer {
    ValueId value = kNoValue;
    int64_t bytes = 0;  // of all its instances that are kept here
  };
  // If more than PlanOptions::memory_limit is needed: the largest at the time when most is.
  std::vector<LiveBuffer> largest;
};

// One device's live bytes if every value had a buffer of its own, operation by operation.
class DeviceMemory {
 public:
  DeviceMemory(const Program& program, const Schedule& schedule, const StorageAssignment& storage);

  int64_t peak_bytes() const { return MostIn(0, static_cast<uint32_t>(alive_.size())); }
  // While the block's own steps run; what blocks within it hold besides is theirs.
  int64_t PeakIn(const ScheduledBlock& block) const;

 private:
  int64_t MostIn(uint32_t begin, uint32_t end) const;
  int64_t MostAt(uint32_t first_point, uint32_t last_point) const {
    return MostIn(first_[first_point], first_[last_point + 1]);
  }

  std::vector<uint32_t> first_;  // operation number of each program point
  std::vector<int64_t> alive_;   // bytes, by operation number
};

// The largest buffers that are alive when most bytes are, with the parameters; the largest first.
std::vector<PlanMemory::LiveBuffer> LargestBuffers(const Program& program,
                                                   const StorageAssignment& storage,
                                                   const KeptInstances& kept);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_PLAN_MEMORY_H_
