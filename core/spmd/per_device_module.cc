#include "core/spmd/per_device_module.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/analysis/partitioned.h"
#include "core/propagation/shardy_import.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

constexpr int64_t kMaxDevices = int64_t{1} << 20;

// Does anything speak of partitions: a collective with a channel, partition-id, a sharding?
bool SpeaksOfPartitions(const Module& module) {
  bool collectives = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() != nullptr || x->opcode() == Opcode::kPartitionId) return true;
      if (!IsCollective(x->opcode())) continue;
      collectives = true;
      if (x->attributes<CollectiveAttributes>().channel_id != 0) return true;
    }
  }
  return !collectives;
}

Expected<void> RunNamed(std::string_view name, Module& module, PassContext& context,
                        const PerDeviceOptions& options) {
  const Pass* pass[] = {FindPass(name)};
  return RunPasses(module, pass, context, options.passes, options.timings);
}

}  // namespace

DeviceCounts CountDevices(const Module& module, int64_t num_partitions) {
  const int64_t replicas = std::max<int64_t>(module.header().replica_count, 1);
  int64_t partitions = num_partitions;
  if (partitions <= 0) {
    const std::string recorded =
        FrontendAttribute(module.header().frontend_attributes, kNumPartitionsAttribute);
    if (!recorded.empty()) partitions = std::atoll(recorded.c_str());
  }
  if (partitions <= 0) {
    const int64_t named = module.header().num_partitions;
    partitions = named > 1 || replicas > 1 ? named : module.DeviceCount();
    // Groups without channel_id count replicas, whatever the header forgot to say.
    if (replicas == 1 && named <= 1 && !SpeaksOfPartitions(module)) {
      return {std::clamp<int64_t>(partitions, 1, kMaxDevices), 1};
    }
  }
  const int64_t counted = std::min(replicas, kMaxDevices);
  return {counted, std::clamp<int64_t>(partitions, 1, kMaxDevices / counted)};
}

Expected<DeviceCounts> ReadDevices(Module& module, int64_t num_partitions) {
  if (num_partitions > 0) module.header().num_partitions = num_partitions;
  if (auto imported = ImportShardyShardings(module); !imported) return Fail(imported.error());
  return CountDevices(module, num_partitions);
}

Expected<DeviceCounts> CompleteShardings(Module& module, PassContext& context,
                                         const PerDeviceOptions& options) {
  // Shardings over another number of devices are the user's error, found by propagation.
  if (options.num_partitions > 0) module.header().num_partitions = options.num_partitions;
  auto done = RunNamed("import-shardy", module, context, options);
  if (!done) return Fail(done.error());
  const DeviceCounts devices = CountDevices(module, options.num_partitions);
  done = RunNamed("inline-calls", module, context, options);
  if (done && options.after_inlining) done = options.after_inlining(module);
  if (done && options.weight_update_sharding) {
    done = RunNamed("weight-update-sharding", module, context, options);
  }
  if (done && options.propagate) done = RunNamed("propagate", module, context, options);
  if (done && options.after_propagation) done = options.after_propagation(module);
  if (!done) return Fail(done.error());
  return devices;
}

Expected<DeviceCounts> MakePerDeviceModule(Module& module, PassContext& context,
                                           const PerDeviceOptions& options) {
  auto devices = CompleteShardings(module, context, options);
  if (!devices) return devices;
  context.partition.num_partitions = devices->partitions;
  auto done = RunNamed("partition", module, context, options);
  if (done && options.windowed_einsum) done = RunNamed("windowed-einsum", module, context, options);
  if (!done) return Fail(done.error());
  return devices;
}

}  // namespace gshard
