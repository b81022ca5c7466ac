#include "core/remat/fit_to_memory.h"

#include <algorithm>
#include <memory>

#include "core/analysis/partitioned.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/inline_calls.h"

namespace gshard {
namespace {

// What the tiles of a whole program need and what its partitioned program needs differ a little:
// the difference is asked for again.
constexpr int kMaxAttempts = 6;

Expected<int64_t> PeakOnOneDevice(const Module& module, bool is_whole, const FitOptions& options) {
  if (!is_whole) return PeakMemory(module, options.memory).peak_bytes;
  std::unique_ptr<Module> copy = module.Clone();
  PassContext context;
  PerDeviceOptions way;
  way.num_partitions = options.num_partitions;
  if (auto done = MakePerDeviceModule(*copy, context, way); !done) return Fail(done.error());
  return PeakMemory(*copy, options.memory).peak_bytes;
}

}  // namespace

Expected<RematStats> FitToMemory(Module& module, PassContext& context, const FitOptions& options) {
  bool is_whole = !IsPartitioned(module);
  if (is_whole) {
    auto devices = ReadDevices(module, options.num_partitions);
    if (!devices) return Fail(devices.error());
    is_whole = devices->partitions > 1;
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
  Expected<int64_t> peak = PeakOnOneDevice(module, is_whole, options);
  if (!peak) return Fail(peak.error());
  RematStats stats;
  stats.peak_before = *peak;
  for (int attempt = 0; attempt<kMaxAttempts&& * peak> options.limit_bytes; ++attempt) {
    remat.max_rounds = RematOptions().max_rounds;
    remat.max_rounds = Rematerialize(*module.Clone(), remat).best_round;
    std::unique_ptr<Module> trial = module.Clone();
    RematStats more = Rematerialize(*trial, remat);
    Expected<int64_t> reached = PeakOnOneDevice(*trial, is_whole, options);
    if (!reached) return Fail(reached.error());
    if (*reached >= *peak) break;  // nothing helps any more
    Rematerialize(module, remat);
    peak = reached;
    stats.values += more.values;
    stats.instructions += more.instructions;
    stats.flops += more.flops;
    remat.limit_bytes = more.peak_after - (*peak - options.limit_bytes);
  }
  stats.peak_after = *peak;
  return stats;
}

}  // namespace gshard
