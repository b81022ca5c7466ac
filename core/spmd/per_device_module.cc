#include "core/spmd/per_device_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/analysis/device_grid.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/propagation/shardy_import.h"
#include "core/spmd/ready_module.h"
#include "core/transforms/expand/dynamic_padder.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

Expected<void> RunNamed(std::string_view name, Module& module, PassContext& context,
                        const PerDeviceOptions& options) {
  const Pass* pass[] = {FindPass(name)};
  return RunPasses(module, pass, context, options.passes, options.timings);
}

// Not everything is defined on a part of an array: then the partitioner keeps such arrays whole.
Expected<void> PadWherePossible(Module& module, PassContext& context,
                                const PerDeviceOptions& options) {
  if (!HasDynamicSizes(module)) return {};
  if (auto tried = PadDynamicSizes(*module.Clone()); !tried) {
    Diagnostic warning = tried.error();
    warning.severity = Severity::kWarning;
    warning.code = "W-DYNAMIC-001";
    warning.hint = "arrays of sizes known at run time stay whole on every device";
    context.diagnostics.push_back(std::move(warning));
    return {};
  }
  return RunNamed("dynamic-padder", module, context, options);
}

// On one device every array is whole, whatever the text says about more of them.
void KeepWhole(Module& module) {
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const Sharding* sharding = x->sharding();
      if (sharding == nullptr) continue;
      const auto is_tiled = [](const Sharding* s) { return s->IsTiled(); };
      const bool tiled = sharding->IsTuple() ? std::ranges::any_of(sharding->elements, is_tiled)
                                             : is_tiled(sharding);
      if (tiled && !WhyNotApplicable(*x, 1).empty()) x->set_sharding(module.context().Replicated());
    }
  }
}

// jax.pmap made such programs up to JAX 0.7.2; its users may expect them to be cut.
Diagnostic NoteOnReplicas(uint32_t replicas) {
  Diagnostic note = MakeError(
      "",
      fmt::format("the program has {} replicas and one partition, as jax.pmap makes it: its arrays "
                  "are each device's own, and nothing is partitioned",
                  replicas));
  note.severity = Severity::kNote;
  return note;
}

Expected<void> Propagate(const DeviceGrid& devices, Module& module, PassContext& context,
                         const PerDeviceOptions& options) {
  // Shardy splits them wherever it runs.
  const bool as_shardy = ModeFor(module, context.propagation.mode) == PropagationMode::kShardy;
  const bool split = (options.split_constants || as_shardy) && devices.partitions > 1;
  if (split && !as_shardy) {
    if (auto done = RunNamed("canonicalize", module, context, options); !done) return done;
  }
  if (split) {
    if (auto done = RunNamed("split-constants", module, context, options); !done) return done;
  }
  auto done = RunNamed("propagate", module, context, options);
  if (done && split) done = RunNamed("merge-constants", module, context, options);
  return done;
}

// Of a copy of a ready module.
Expected<DeviceGrid> CompleteReady(Module& module, PassContext& context,
                                   const PerDeviceOptions& options) {
  if (options.num_partitions > 0) module.header().num_partitions = options.num_partitions;
  const DeviceGrid devices = CountDevices(module, options.num_partitions);
  auto done = VerifyForPartitions(module, devices.partitions);
  context.constant_copies = options.ready->ConstantCopiesIn(module);
  if (done) done = RunNamed("propagate", module, context, options);
  if (done) done = RunNamed("merge-constants", module, context, options);
  if (done && options.after_propagation) done = options.after_propagation(module);
  if (!done) return Fail(done.error());
  return devices;
}

}  // namespace

Expected<DeviceGrid> ReadDevices(Module& module, int64_t num_partitions) {
  if (num_partitions > 0) module.header().num_partitions = num_partitions;
  if (auto imported = ImportShardyShardings(module); !imported) return Fail(imported.error());
  return CountDevices(module, num_partitions);
}

Expected<DeviceGrid> CompleteShardings(Module& module, PassContext& context,
                                       const PerDeviceOptions& options) {
  if (options.ready != nullptr) return CompleteReady(module, context, options);
  // Shardings over another number of devices are the user's error, found by propagation.
  if (options.num_partitions > 0) module.header().num_partitions = options.num_partitions;
  auto done = RunNamed("import-shardy", module, context, options);
  if (!done) return Fail(done.error());
  const DeviceGrid devices = CountDevices(module, options.num_partitions);
  if (auto verified = VerifyForPartitions(module, devices.partitions); !verified) {
    return Fail(verified.error());
  }
  if (devices.partitions == 1) KeepWhole(module);
  if (devices.partitions == 1 && devices.replicas > 1) {
    context.diagnostics.push_back(NoteOnReplicas(devices.replicas));
  }
  // Where constants stay shared it matters which of them are one: XLA simplifies function by
  // function and inlines later, so those of two functions are two.
  if (options.propagate && !options.split_constants && devices.partitions > 1 &&
      ModeFor(module, context.propagation.mode) == PropagationMode::kGspmd) {
    done = RunNamed("canonicalize", module, context, options);
  }
  if (done) done = RunNamed("inline-calls", module, context, options);
  if (done && options.pad_dynamic_sizes) done = PadWherePossible(module, context, options);
  if (done && options.before_sharding) done = options.before_sharding(module);
  if (done && options.weight_update_sharding) {
    done = RunNamed("weight-update-sharding", module, context, options);
  }
  if (done && options.propagate) done = Propagate(devices, module, context, options);
  if (done && options.after_propagation) done = options.after_propagation(module);
  if (!done) return Fail(done.error());
  return devices;
}

Expected<DeviceGrid> MakePerDeviceModule(Module& module, PassContext& context,
                                         const PerDeviceOptions& options) {
  auto devices = CompleteShardings(module, context, options);
  if (!devices) return devices;
  context.partition.num_partitions = devices->partitions;
  if (devices->partitions == module.DeviceCount()) RecordInferredMesh(module);
  const bool as_xla = context.partition.policies == PartitionPolicies::AsXla();
  context.partition.sums_leave_loops = IsPipelined(module) && !as_xla;
  auto done = RunNamed("partition", module, context, options);
  if (done && context.partition.sums_leave_loops) {
    done = RunNamed("while-loop-all-reduce-code-motion", module, context, options);
  }
  if (done && options.windowed_einsum) done = RunNamed("windowed-einsum", module, context, options);
  if (!done) return Fail(done.error());
  return devices;
}

}  // namespace gshard
