// Addresses in the arena: of buffers with lifetimes, packed; of slots of chains and their values;
// of what stays for the whole run.
#ifndef GSHARD_BACKENDS_CPU_PLAN_ARENA_LAYOUT_H_
#define GSHARD_BACKENDS_CPU_PLAN_ARENA_LAYOUT_H_

#include <tsl/robin_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backends/cpu/plan/instance_places.h"
#include "backends/cpu/plan/interval_packer.h"
#include "backends/cpu/plan/program.h"
#include "backends/cpu/plan/schedule.h"
#include "backends/cpu/plan/storage.h"

namespace gshard::cpu {

// How a chain runs: so many classes together, their temporaries in one slot a thread.
struct ChainLayout {
  uint32_t block = 1;
  int64_t slot_bytes = 0;
  uint32_t slot_buffer = 0;  // a buffer of the arena
  int64_t slots = 0;         // in it
  // Per fused accumulator: accumulators of the tasks that run here, or kDirect if they are the
  // results.
  std::vector<uint32_t> accumulators;
  static constexpr uint32_t kDirect = UINT32_MAX;
  tsl::robin_map<ValueId, int64_t> offsets;  // of slot values, for blocks of `block` classes
};

// One carried value of a loop on its way to the next iteration.
struct CarryCopy {
  ValueId from = kNoValue;
  ValueId to = kNoValue;
  int64_t staged = -1;  // >= 0: buffer of the arena; from -> buffer now, buffer -> to at the end
};

// Known values: bytes that are written before a run.
struct KnownData {
  int64_t offset = 0;
  std::span<const std::byte> data;
};

struct ArenaLayout {
  explicit ArenaLayout(InstancePlaces p) : places(std::move(p)) {}

  InstancePlaces places;
  tsl::robin_map<const ScheduledStep*, ChainLayout> chains;
  // Per while, in the order in which they are made.
  tsl::robin_map<const ScheduledStep*, std::vector<CarryCopy>> next_copies;
  std::vector<KnownData> known;
  int64_t zero_bytes = 0;  // at places.zeros()
  int64_t rng_state = 0;  // offset
  int64_t transient_bytes = 0;
  int64_t persistent_bytes = 0;
  int64_t lower_bound_bytes = 0;  // of transient_bytes

  // Of a buffer that a chain or a copy names.
  int64_t BufferOffset(uint32_t buffer) const { return packer.offset(buffer); }

  IntervalPacker packer;
};

ArenaLayout LayOutArena(const Program& program, const Schedule& schedule,
                        const StorageAssignment& storage, int threads, KeptInstances kept);

// A carried value, or a branch's result, that is not where it has to be.
bool NeedsCopy(const Program& program, const StorageAssignment& storage, ValueId from, ValueId to);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_ARENA_LAYOUT_H_
