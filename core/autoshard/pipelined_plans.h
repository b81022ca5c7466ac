// Pipelines among the plans for a number of devices: which number of stages, of micro-batches and
// which schedule, over which plan of the devices of one stage.
#ifndef GSHARD_CORE_AUTOSHARD_PIPELINED_PLANS_H_
#define GSHARD_CORE_AUTOSHARD_PIPELINED_PLANS_H_

#include <string>
#include <vector>

#include "core/autoshard/auto_sharding.h"

namespace gshard::autoshard {

// The whole step on the devices of one stage: what a pipeline is made of.
struct StageProgram {
  int64_t devices = 1;
  std::vector<MeshAxis> mesh;  // empty: one device
  std::string text, command;   // HLO, annotated; a shell pipeline from the user's file to it
  double step_time_s = 0;
  int64_t peak_bytes = 0;  // of a device, of the whole step
  std::vector<PlannedRule> rules;
  int64_t annotations = 0;
  bool zero = false;  // updates of weights are cut
};

struct PipelinedPlans {
  std::vector<AutoPlan> plans;     // best first
  std::vector<std::string> texts;  // of plans
  int64_t tried = 0, refused = 0;  // programs printed and priced; of them, that cannot be
};

// Prints pipelines of `programs` over `devices` devices and prices them, the most promising first:
// those whose stages, were they alike and nothing sent between them, took least time with the
// bubble. Of the best found so far the neighbours follow: more or fewer micro-batches, other
// schedules, other recomputation. What promises half as much again as the best is left. The same
// for any number of threads. `best_without`: the best plan without stages.
PipelinedPlans SearchPipelines(const std::vector<StageProgram>& programs, int64_t devices,
                               const AutoOptions& options, const AutoPlan& best_without);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PIPELINED_PLANS_H_
