#include "backends/cpu/plan/plan_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/cpu/memory/memory.h"

namespace gshard::cpu {
namespace {

void CountOps(const ScheduledBlock& block, std::vector<uint32_t>& ops) {
  for (const ScheduledStep& step : block.steps) {
    ops[step.begin] = std::max<uint32_t>(1, static_cast<uint32_t>(step.chain.ops.size()));
    for (const ScheduledBlock* inner : step.blocks) CountOps(*inner, ops);
  }
}

}  // namespace

DeviceMemory::DeviceMemory(const Program& program, const Schedule& schedule,
                           const StorageAssignment& storage)
    : first_(storage.program_points + 2, 1) {
  CountOps(*schedule.entry, first_);
  uint32_t next = 0;
  for (uint32_t& point : first_) next += std::exchange(point, next);
  alive_.assign(next + 1, 0);
  // From operation `begin` to `end`, both included.
  auto add = [&](int64_t bytes, uint32_t begin, uint32_t end) {
    const auto whole = static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes)));
    alive_[begin] += whole;
    alive_[end + 1] -= whole;
  };
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (storage.storage_class[v] != StorageClass::kSlot) continue;
    add(program.values[v].bytes, first_[storage.defined[v].time] + storage.defined[v].op,
        first_[storage.last_used[v].time] + storage.last_used[v].op);
  }
  for (const Storage& buffer : storage.storages) {
    add(buffer.instance_bytes, first_[buffer.begin], first_[buffer.end + 1] - 1);
  }
  for (ValueId parameter : program.parameters) alive_[0] += program.values[parameter].bytes;
  std::partial_sum(alive_.begin(), alive_.end(), alive_.begin());
}

int64_t DeviceMemory::MostIn(uint32_t begin, uint32_t end) const {
  int64_t most = 0;
  for (uint32_t op = begin; op < end; ++op) most = std::max(most, alive_[op]);
  return most;
}

int64_t DeviceMemory::PeakIn(const ScheduledBlock& block) const {
  int64_t most = MostAt(block.end, block.end);
  for (const ScheduledStep& step : block.steps) {
    if (step.blocks.empty()) {
      most = std::max(most, MostAt(step.begin, step.end));
    } else {
      most = std::max({most, MostAt(step.begin, step.begin), MostAt(step.end, step.end)});
    }
  }
  return most;
}

std::vector<PlanMemory::LiveBuffer> LargestBuffers(const Program& program,
                                                   const StorageAssignment& storage,
                                                   const KeptInstances& kept) {
  constexpr size_t kMax = 5;
  // By storage: a value that has it.
  std::vector<ValueId> users(storage.storages.size(), kNoValue);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (storage.storage_class[v] == StorageClass::kStored && users[storage.storage[v]] == kNoValue)
      users[storage.storage[v]] = v;
  }
  std::vector<int64_t> change(storage.program_points + 2, 0);
  for (size_t s = 0; s < users.size(); ++s) {
    const Storage& buffer = storage.storages[s];
    const int64_t bytes = users[s] == kNoValue ? 0 : buffer.instance_bytes * kept.count(users[s]);
    change[buffer.begin] += bytes;
    change[buffer.end + 1] -= bytes;
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  const auto peak =
      static_cast<uint32_t>(std::max_element(change.begin(), change.end()) - change.begin());
  std::vector<PlanMemory::LiveBuffer> buffers;
  auto add = [&](ValueId v) { buffers.push_back({v, program.values[v].bytes * kept.count(v)}); };
  for (ValueId parameter : program.parameters) add(parameter);
  for (size_t s = 0; s < users.size(); ++s) {
    const Storage& buffer = storage.storages[s];
    if (users[s] != kNoValue && buffer.begin <= peak && buffer.end >= peak) add(users[s]);
  }
  std::stable_sort(buffers.begin(), buffers.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  buffers.resize(std::min(buffers.size(), kMax));
  return buffers;
}

}  // namespace gshard::cpu
