#include "core/remat/fit_to_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/analysis/partitioned.h"
#include "core/remat/loop_residuals.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/inline_calls.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// What the tiles of a whole program need and what its partitioned program needs differ a little:
// the difference is asked for again.
constexpr int kMaxAttempts = 6;

// As gshard-cost prices the same text.
Expected<int64_t> PeakOnOneDevice(const Module& module, const PropagationOptions& propagation,
                                  bool is_whole, const FitOptions& options) {
  DeviceProgramOptions way;
  way.num_partitions = options.num_partitions;
  way.is_partitioned = !is_whole && IsPartitioned(module);
  way.propagation = propagation;
  Expected<DeviceProgram> program = MakeDeviceProgram(module.Clone(), way);
  if (!program) return Fail(std::move(program.error()));
  if (auto cleaned = CleanForCost(*program->module, options.cleanup); !cleaned)
    return Fail(cleaned.error());
  return PeakBytes(*program->module, options.memory);
}

// Computes rows of stacks again that loops save for later loops, as few stacks as the limit needs.
Expected<RematStats> DropStacks(Module& module, int64_t peak, bool is_whole,
                                const FitOptions& options, PassContext& context) {
  RematStats stats;
  stats.peak_before = stats.peak_after = peak;
  std::unique_ptr<Module> flat = module.Clone();
  if (auto done = InlineCalls(*flat); !done) return Fail(done.error());
  ForwardTupleElements(*flat);
  RemoveDeadCode(*flat);
  const int64_t most = CountLoopResiduals(*flat);
  if (most == 0) return stats;
  auto peak_with = [&](int64_t count) {
    std::unique_ptr<Module> trial = flat->Clone();
    DropLoopResiduals(*trial, count);
    return PeakOnOneDevice(*trial, context.propagation, is_whole, options);
  };
  int64_t least = 1, enough = most;  // bisection: more stacks dropped, less memory
  while (least < enough) {
    const int64_t middle = least + (enough - least) / 2;
    Expected<int64_t> reached = peak_with(middle);
    if (!reached) return Fail(reached.error());
    (*reached <= options.limit_bytes ? enough : least) =
        *reached <= options.limit_bytes ? middle : middle + 1;
  }
  Expected<int64_t> reached = peak_with(enough);
  if (!reached) return Fail(reached.error());
  if (*reached >= peak) return stats;
  if (auto done = InlineCalls(module, nullptr, &context.diagnostics); !done) {
    return Fail(done.error());
  }
  ForwardTupleElements(module);
  RemoveDeadCode(module);
  const DroppedResiduals dropped = DropLoopResiduals(module, enough);
  stats.peak_after = *reached;
  stats.values = dropped.stacks;
  stats.instructions = dropped.instructions;
  stats.dropped = dropped.values;
  return stats;
}

Expected<RematStats> Fit(Module& module, PassContext& context, bool is_whole,
                         const FitOptions& options) {
  Expected<int64_t> first = PeakOnOneDevice(module, context.propagation, is_whole, options);
  if (!first) return Fail(first.error());
  RematStats stats;
  stats.peak_before = stats.peak_after = *first;
  if (*first > options.limit_bytes) {
    Expected<RematStats> dropped = DropStacks(module, *first, is_whole, options, context);
    if (!dropped) return dropped;
    stats = *dropped;
  }
  PerDeviceOptions way;
  way.num_partitions = options.num_partitions;
  if (is_whole) {
    if (auto done = CompleteShardings(module, context, way); !done) return Fail(done.error());
  } else if (auto done = InlineCalls(module, nullptr, &context.diagnostics); !done) {
    return Fail(done.error());
  }
  RematOptions remat{options.limit_bytes, options.memory};
  remat.memory.by_sharding = is_whole;
  Expected<int64_t> peak = PeakOnOneDevice(module, context.propagation, is_whole, options);
  if (!peak) return Fail(peak.error());
  // The peak of the program as it stands, of tiles and without what partitioning and cleaning
  // change, is another figure than a device's: as much as that is over the limit has to go from
  // this one.
  remat.limit_bytes = PeakBytes(*module.Clone(), remat.memory) - (*peak - options.limit_bytes);
  for (int attempt = 0; attempt < kMaxAttempts && peak.value() > options.limit_bytes; ++attempt) {
    Rematerialized trial = Rematerialize(module, remat);
    const RematStats& more = trial.stats;
    if (more.values == 0) break;  // nothing helps any more
    Expected<int64_t> reached =
        PeakOnOneDevice(*trial.module, context.propagation, is_whole, options);
    if (!reached) return Fail(reached.error());
    const bool is_less = *reached < *peak;  // else more has to go before a device holds less
    if (is_less) module = std::move(*trial.module);
    const int64_t asked = remat.limit_bytes;
    remat.limit_bytes = more.peak_after - (*reached - options.limit_bytes);
    if (!is_less && remat.limit_bytes >= asked) break;
    if (!is_less) continue;
    peak = reached;
    stats.values += more.values;
    stats.instructions += more.instructions;
    stats.dropped.insert(stats.dropped.end(), more.dropped.begin(), more.dropped.end());
  }
  stats.peak_after = *peak;
  return stats;
}

}  // namespace

Expected<RematStats> FitToMemory(Module& module, PassContext& context, const FitOptions& options) {
  bool is_whole = !IsPartitioned(module);
  if (is_whole) {
    auto devices = ReadDevices(module, options.num_partitions);
    if (!devices) return Fail(devices.error());
    is_whole = devices->partitions > 1;
  }
  const std::unique_ptr<Module> before = options.record == nullptr ? nullptr : module.Clone();
  Expected<RematStats> stats = Fit(module, context, is_whole, options);
  if (!stats || options.record == nullptr) return stats;
  Expected<RematRecord> record = MakeRematRecord({.before = *before,
                                                  .after = module,
                                                  .dropped = stats->dropped,
                                                  .num_partitions = options.num_partitions,
                                                  .is_whole = is_whole,
                                                  .memory = options.memory,
                                                  .propagation = context.propagation});
  if (!record) return Fail(std::move(record.error()));
  *options.record = std::move(*record);
  return stats;
}

std::string RematCommand(std::string_view input, std::string_view limit, std::string_view chip_flag,
                         const CostOptions& cost) {
  std::string command = fmt::format("gshard-opt remat {} --limit {} {}", input, limit, chip_flag);
  if (!cost.fuse_attention) command += " --attention materialized";
  if (cost.tiling) {
    command += fmt::format(" --tiling {}", *cost.tiling == Tiling::kDense    ? "none"
                                           : *cost.tiling == Tiling::kLayout ? "layout"
                                                                             : "tpu");
  }
  if (cost.combine_bytes > 0) command += fmt::format(" --combine-threshold {}", cost.combine_bytes);
  return command;
}

}  // namespace gshard
