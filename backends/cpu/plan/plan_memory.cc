#include "backends/cpu/plan/plan_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/cpu/plan/interval_packer.h"

namespace gshard::cpu {
namespace {

void CountOps(const ScheduledBlock& block, std::vector<uint32_t>& ops) {
  for (const ScheduledStep& step : block.steps) {
    ops[step.begin] = std::max<uint32_t>(1, static_cast<uint32_t>(step.chain.ops.size()));
    for (const ScheduledBlock* inner : step.blocks) CountOps(*inner, ops);
  }
}

}  // namespace

int64_t DevicePeakBytes(const Program& program, const Schedule& schedule,
                        const StorageAssignment& storage) {
  // Operation number of each program point.
  std::vector<uint32_t> first(storage.program_points + 2, 1);
  CountOps(*schedule.entry, first);
  uint32_t next = 0;
  for (uint32_t& point : first) next += std::exchange(point, next);
  IntervalPacker live;
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (storage.storage_class[v] == StorageClass::kSlot) {
      live.Add(program.values[v].bytes, first[storage.defined[v].time] + storage.defined[v].op,
               first[storage.last_used[v].time] + storage.last_used[v].op);
    }
  }
  for (const Storage& buffer : storage.storages) {
    live.Add(buffer.instance_bytes, first[buffer.begin], first[buffer.end + 1] - 1);
  }
  int64_t parameters = 0;
  for (ValueId parameter : program.parameters) parameters += program.values[parameter].bytes;
  return live.LowerBound() + parameters;
}

std::vector<PlanMemory::LiveBuffer> LargestBuffers(const Program& program,
                                                   const StorageAssignment& storage) {
  constexpr size_t kMost = 5;
  std::vector<int64_t> change(storage.program_points + 2, 0);
  for (const Storage& buffer : storage.storages) {
    change[buffer.begin] += buffer.bytes;
    change[buffer.end + 1] -= buffer.bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  const auto peak =
      static_cast<uint32_t>(std::max_element(change.begin(), change.end()) - change.begin());
  std::vector<PlanMemory::LiveBuffer> buffers;
  auto add = [&](ValueId v) {
    buffers.push_back({v, program.values[v].bytes * program.values[v].classes->count()});
  };
  for (ValueId parameter : program.parameters) add(parameter);
  std::vector<bool> seen(storage.storages.size(), false);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (storage.storage_class[v] != StorageClass::kStored) continue;
    const uint32_t s = storage.storage[v];
    const Storage& buffer = storage.storages[s];
    if (seen[s] || buffer.begin > peak || buffer.end < peak) continue;
    seen[s] = true;
    add(v);
  }
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  buffers.resize(std::min(buffers.size(), kMost));
  return buffers;
}

}  // namespace gshard::cpu
