// What a per-device program costs: time, traffic, memory. Loops count their trips.
//
// First model: every instruction takes the larger of its compute and its memory time, one after the
// other; collectives are not overlapped. Ring formulas per collective. See docs/cost.md.
#ifndef GSHARD_CORE_COST_COST_REPORT_H_
#define GSHARD_CORE_COST_COST_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "core/cost/chip.h"
#include "core/cost/memory.h"
#include "ir/module.h"

namespace gshard {

struct CollectiveRow {
  std::string kind;
  std::vector<std::string> axes;
  double count = 0;             // executions in one step
  double bytes_per_device = 0;  // sent in one step
  double time_s = 0;
  std::string cause;  // of its most expensive instruction
  double cause_bytes = 0;
};

struct CostReport {
  int64_t devices = 1;
  std::string chip;
  double step_time_s = 0;
  double compute_time_s = 0;
  double exposed_communication_s = 0;
  double flops_per_device = 0;
  double transcendentals_per_device = 0;
  double useful_flops_per_device = 0;  // of the unpartitioned program, divided by the devices
  double mfu = 0;                      // useful FLOPs / (step time * peak)
  double hfu = 0;                      // FLOPs done / (step time * peak)
  double hbm_bytes_per_device = 0;
  MemoryReport memory;
  std::vector<CollectiveRow> collectives;  // by bytes, largest first
  int64_t unknown_trip_counts = 0;         // while loops counted once for want of a trip count
};

// Floating-point operations of one execution (loops multiplied), for `useful_flops`.
double TotalFlops(const Module& module);

// `module` is partitioned (or runs on one device). Not const: meshes are interned in its context.
// `useful_flops`: TotalFlops of the unpartitioned program where known.
CostReport EstimateCost(Module& module, const Chip& chip,
                        std::optional<double> useful_flops = std::nullopt);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_COST_REPORT_H_
