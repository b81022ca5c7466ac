// See device_program.h.

#include "core/estimate/device_program.h"

#include <utility>

#include "core/analysis/partitioned.h"
#include "core/cost/useful_flops.h"
#include "core/pass.h"
#include "core/propagation/canonicalizer.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/cse.h"
#include "core/transforms/dense_ragged_dots.h"
#include "core/transforms/expand/multiplied_dots.h"
#include "core/transforms/expand/unrolled_random_bits.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/inline_calls.h"
#include "core/transforms/tpu/relaid_carries.h"
#include "core/transforms/tpu/rounded_operands.h"
#include "core/transforms/tpu/sunk_broadcasts.h"
#include "ir/compiled_text.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// In place; a module for one device stays one, simplified as one for more would be.
Expected<void> Partition(DeviceProgram& program, const DeviceProgramOptions& options) {
  Module& module = *program.module;
  if (options.ready == nullptr) {
    auto devices = ReadDevices(module, options.num_partitions);
    if (!devices) return Fail(std::move(devices.error()));
    if (devices->partitions == 1) {
      if (IsCompiled(module) || !CheckInlinedSize(module)) return {};
      if (auto inlined = InlineCalls(module); !inlined) return Fail(std::move(inlined.error()));
      Canonicalize(module);
      MergeCommonSubexpressions(module);  // as the partitioner does where there is something to cut
      return {};
    }
    if (auto small = CheckInlinedSize(module); !small) return small;
  }
  PassContext context;
  context.propagation = options.propagation;
  context.recorder = options.recorder;
  context.partition.reshard_plans = options.reshard_plans;
  context.partition.tables = options.partition_tables;
  context.partition.tells_causes = options.tells_causes;
  if (options.as_xla) context.partition.policies = PartitionPolicies::AsXla();
  PerDeviceOptions way;
  way.ready = options.ready;
  way.num_partitions = options.num_partitions;
  way.weight_update_sharding = options.weight_update_sharding;
  way.windowed_einsum = options.windowed_einsum;
  if (options.windowed_einsum) context.windowed_einsum.min_bytes = 0;
  way.after_propagation = [&](Module& whole) {
    if (options.counts_useful_flops) program.useful_flops = TotalFlops(whole);
    if (options.records_tensors) program.tensors.Record(whole);
    return options.after_propagation ? options.after_propagation(whole) : Expected<void>();
  };
  auto done = MakePerDeviceModule(module, context, way);
  program.diagnostics = std::move(context.diagnostics);
  program.propagated_as = context.propagated_as;
  if (!done) return Fail(std::move(done.error()));
  // What its partitioner leaves, XLA does once in a later pass; ours merges values as it goes.
  if (options.as_xla) MergeCommonSubexpressions(module);
  return {};
}

Expected<void> CleanAndTell(DeviceProgram& program, const Chip& chip, CostOptions& options) {
  if (chip.HasDenseRaggedDots() && !program.useful_flops && !IsCompiled(*program.module) &&
      HasRaggedDots(*program.module)) {
    // Before each row meets the matrices of all groups.
    program.useful_flops =
        TotalFlops(*program.module) * static_cast<double>(program.module->DeviceCount());
  }
  options.useful_flops = program.useful_flops;
  return CleanForCost(*program.module, CleanupOf(chip));
}

}  // namespace

Expected<DeviceProgram> MakeDeviceProgram(std::unique_ptr<Module> module,
                                          const DeviceProgramOptions& options) {
  if (auto bounded = CheckBoundedSizes(*module); !bounded) return Fail(std::move(bounded.error()));
  DeviceProgram program;
  program.module = std::move(module);
  if (options.is_partitioned ? *options.is_partitioned : IsPartitioned(*program.module)) {
    if (options.num_partitions > 0) {
      program.module->header().num_partitions = options.num_partitions;
    }
  } else if (auto done = Partition(program, options); !done) {
    return Fail(std::move(done.error()));
  }
  if (options.optimize) {
    PassContext context;
    auto done = RunPasses(*program.module, DefaultOptimizationPasses(), context, {});
    if (!done) return Fail(std::move(done.error()));
  }
  return program;
}

Expected<CostReport> ReportCost(DeviceProgram& program, const Chip& chip, CostOptions options) {
  if (auto clean = CleanAndTell(program, chip, options); !clean)
    return Fail(std::move(clean.error()));
  Expected<CostReport> report = EstimateCost(*program.module, chip, options);
  if (!report) return report;
  DescribeTensors(*program.module, program.tensors, report->memory);
  return report;
}

Expected<StepFigures> PriceProgram(DeviceProgram program, const Chip& chip, CostOptions options) {
  if (auto clean = CleanAndTell(program, chip, options); !clean)
    return Fail(std::move(clean.error()));
  return EstimateStep(*program.module, chip, options);
}

Cleanup CleanupOf(const Chip& chip) {
  const bool is_gpu_of_xla =
      chip.compiler == Chip::Compiler::kGpu && chip.stack == Chip::Stack::kJax;
  return {.rounds_operands = chip.RoundsDotOperands(),
          .multiplies_dots = is_gpu_of_xla || chip.compiler == Chip::Compiler::kTpu,
          .for_tpu = chip.compiler == Chip::Compiler::kTpu,
          .dense_ragged_dots = chip.HasDenseRaggedDots(),
          .unrolls_bits = chip.compiler != Chip::Compiler::kCpu};
}

Expected<void> CleanForCost(Module& module, const Cleanup& cleanup) {
  if (IsCompiled(module)) return {};
  if (CheckInlinedSize(module)) {
    if (auto inlined = InlineCalls(module); !inlined) return Fail(std::move(inlined.error()));
  }
  ForwardTupleElements(module);
  RemoveDeadCode(module);
  if (cleanup.unrolls_bits) UnrollRandomBits(module);
  if (cleanup.dense_ragged_dots) MakeRaggedDotsDense(module);
  MergeEqualLoopState(module);
  if (cleanup.multiplies_dots) MultiplyDots(module);
  if (cleanup.for_tpu) SinkBroadcasts(module);
  if (cleanup.rounds_operands) RoundOperands(module);
  if (cleanup.for_tpu) RelayCarries(module);
  return {};
}

}  // namespace gshard
