// What a partitioned program sends and why: its collectives by bytes, with cause and source line,
// and the full rematerialisations left. `gshard-opt partition --report`.
#ifndef GSHARD_CORE_REPORT_COLLECTIVE_REPORT_H_
#define GSHARD_CORE_REPORT_COLLECTIVE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cost/collective_cost.h"
#include "core/explain/recorder.h"
#include "core/json.h"
#include "core/propagation/propagation.h"
#include "ir/module.h"

namespace gshard {

struct CollectiveReport {
  struct Collective {
    const Instruction* instruction = nullptr;
    CollectiveCost cost;                     // of one execution
    double executions = 1;                   // in one step; both branches of a conditional count
    const CollectiveCause* cause = nullptr;  // null: not recorded
    double Bytes() const { return executions * cost.bytes_per_device; }
  };
  // A value cut on all devices before and after, and whole on each of them between: in a change of
  // layout, or because its user computes all of a result of which every device keeps a tile.
  struct Rematerialization {
    CollectiveCause cause;
    bool user_runs_whole = false;
    double bytes_per_device = 0;  // sent
    // The annotation that avoids it, and what the whole program sends then: less than without it.
    struct Advice {
      std::string shard;  // as `annotate --shard` takes it
      double bytes_per_device = 0;
    };
    std::optional<Advice> advice;
  };

  int64_t devices = 1;
  PropagationMode propagated_as = PropagationMode::kByText;  // the caller knows
  double bytes_per_device = 0;                               // sent in one step
  std::vector<Collective> collectives;                       // most bytes first
  std::vector<Rematerialization> rematerializations;
  // Changes of layout that are done without here, where XLA's partitioner would need one
  // (core/report/xla_resharding.h).
  std::vector<Rematerialization> xla_rematerializations;
};

// Of a partitioned module. `recorder` (may be null) was given to the partitioner.
// Not const: meshes are interned in the module's context. O(instructions).
CollectiveReport MakeCollectiveReport(Module& partitioned, const ExplainRecorder* recorder);

// `top`: rows of collectives and of each list of rematerialisations; 0: all.
std::string CollectiveReportText(Module& partitioned, const CollectiveReport& report,
                                 size_t top = 0);
std::string CollectiveReportJson(const Module& partitioned, const CollectiveReport& report);
// "avoided_by" in documents. `bytes_without`: what a device sends in one step without it.
Json AdviceAsJson(const CollectiveReport::Rematerialization::Advice& advice, double bytes_without);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_COLLECTIVE_REPORT_H_
