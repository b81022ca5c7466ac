// Which value lives where and when: in the slot of a chain (one per running thread), or in the
// arena with one instance per device class.
//
// Arena storage is shared by values that follow one another: in-place operations, carried values of
// loops with their initial and next values, results of conditionals with those of the branches.
#ifndef GSHARD_BACKENDS_CPU_PLAN_STORAGE_H_
#define GSHARD_BACKENDS_CPU_PLAN_STORAGE_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/plan/schedule.h"

namespace gshard::cpu {

enum class StorageClass : uint8_t {
  kNone,        // never needs memory
  kSlot,        // inside one chain
  kStored,      // in the arena while it lives
  kPersistent,  // in the arena for good: parameters, known values
};

struct Storage {
  int64_t instance_bytes = 0;
  uint32_t begin = 0, end = 0;
};

struct StorageAssignment {
  static constexpr uint32_t kNoStorage = UINT32_MAX;
  std::vector<StorageClass> storage_class;  // by value (of values without view)
  std::vector<uint32_t> storage;            // by value: index into storages, for kStored
  std::vector<Storage> storages;
  // Moment of the last use of slot values and of their definition; and which operation of the
  // chain.
  struct Position {
    uint32_t time = 0, op = 0;
  };
  std::vector<Position> defined, last_used;
  uint32_t program_points = 0;  // all times are below

  // The buffer that carried value `i` of a loop's results starts in and the body's result for it
  // need no copy if they have the carried value's storage.
  bool SharesStorage(ValueId a, ValueId b) const {
    return storage_class[a] == StorageClass::kStored && storage_class[b] == StorageClass::kStored &&
           storage[a] == storage[b];
  }
};

// Also sets the program points in the schedule.
StorageAssignment AssignStorage(const Program& program, Schedule& schedule);

// Whether what the result of a step is a view of is still to be read. (What is no view is alive.)
bool IsRead(const Program& program, const StorageAssignment& storage, ValueId result,
            const ScheduledStep& step);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_STORAGE_H_
