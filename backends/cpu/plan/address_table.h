// Values as steps see them: where each class's instance of an operand or result is.
#ifndef GSHARD_BACKENDS_CPU_PLAN_ADDRESS_TABLE_H_
#define GSHARD_BACKENDS_CPU_PLAN_ADDRESS_TABLE_H_

#include <tsl/robin_map.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "backends/cpu/plan/arena_layout.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/plan/storage.h"

namespace gshard::cpu {

// Tables that references point to are kept in `tables`, which outlives the references.
class AddressTable {
 public:
  AddressTable(Program& program, const StorageAssignment& storage, const ArenaLayout& layout,
               std::deque<std::vector<int64_t>>& tables)
      : program_(program), storage_(storage), layout_(layout), tables_(tables) {}

  // A value seen from a step over `classes`.
  BufferRef Arena(ValueId id, const DeviceClasses* classes);
  // Instances as many and in the order of those of `id`, a value without view, from `begin` on.
  BufferRef LikeArena(ValueId id, int64_t begin, const DeviceClasses* classes);
  // Operand or result of the chain of `step`: in its slot, or in the arena.
  BufferRef InChain(ValueId id, const ScheduledStep& step);

 private:
  struct ViewKeyHash {
    size_t operator()(const std::pair<ValueId, const DeviceClasses*>& key) const {
      return std::hash<const void*>()(key.second) * 31 + key.first;
    }
  };

  const Value& value(ValueId id) const { return program_.values[id]; }
  const int64_t* Keep(std::vector<int64_t> table);

  Program& program_;  // its class table learns maps
  const StorageAssignment& storage_;
  const ArenaLayout& layout_;
  std::deque<std::vector<int64_t>>& tables_;
  tsl::robin_map<std::pair<ValueId, const DeviceClasses*>, BufferRef, ViewKeyHash> view_refs_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_ADDRESS_TABLE_H_
