// The program of one device as schedules: each computation's kernels, collectives, loops and calls
// with their times, what they wait for, and the simulation of their order.
#ifndef GSHARD_CORE_COST_STEP_MODEL_H_
#define GSHARD_CORE_COST_STEP_MODEL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/kernels/module_kernels.h"
#include "core/cost/branched_loop.h"
#include "core/cost/chip.h"
#include "core/cost/collective_cost.h"
#include "core/cost/kernel_work.h"
#include "core/cost/network.h"
#include "core/cost/schedule.h"
#include "core/cost/timeline.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

struct StepModelOptions {
  Overlap overlap = Overlap::kXla;  // kChipDefault is not allowed: PricedStep replaces it
  bool mean_branches = false;       // conditionals take the mean of their branches, not the dearest
  bool uses_text_cycles = true;     // where the text has them and the chip's clock is known
};

struct ComputationCost;

// A while loop that counts once, as it does not follow from the text how often it runs.
struct LoopCountedOnce {
  std::string name;
  double trip_s = 0;                  // seconds of one trip
  std::optional<int64_t> most_trips;  // MostTrips
};

// What stands behind a node of a schedule. Times are in seconds.
//
// kKernel      a kernel of the fusion model
// kCollective  a collective, or its start half
// kLoop        a while loop
// kCallee      a call, a conditional or an asynchronous computation
// kCopy        an asynchronous copy in device memory, or a transfer between device and host memory
struct StepNode {
  enum class Kind : uint8_t { kKernel, kCollective, kLoop, kCallee, kCopy };
  Kind kind = Kind::kKernel;
  const Instruction* instruction = nullptr;
  KernelWork work;               // kKernel; a collective's combiner
  double recompute_flops = 0;    // part of work.flops that rematerialised members do
  double model_s = 0;            // kKernel: of one execution at the chip's rates, by the model
  std::optional<double> text_s;  // and by the cycles that the compiler wrote
  // Returns the part of work.masked_flops that is not rematerialised.
  double MaskedOnceFlops() const {
    return work.flops > 0 ? work.masked_flops * (1 - recompute_flops / work.flops) : 0;
  }
  CollectiveCost collective;
  // kLoop: condition and body, once for each mix of branches that its trips take; kCallee: the
  // computation that counts (of a conditional, the dearest branch; all, each weighted, with
  // mean_branches or where it is known who takes which).
  std::vector<std::pair<const ComputationCost*, double>> callees;  // and how often each runs
  const ComputationCost* slowest = nullptr;  // of a mix: the longest branch that is taken
  double mix_s = 0;                          // of a mix: the branch and waits, mean over devices
  double idle_s = 0;                         // part of mix_s: waiting for other devices
};

struct ComputationCost {
  const Computation* computation = nullptr;
  double trips = 1;  // that the schedule covers: more than 1 for the body of a loop
  std::vector<StepNode> steps;
  std::vector<ScheduleNode> nodes;  // parallel to steps
  Schedule schedule;
};

// Not thread-safe: Of computes costs when they are first asked for, and keeps them.
class StepModel {
 public:
  // All must outlive the model. `network` may be null: collectives take no time. `kernels`: of the
  // module, by FusionOptionsOf(chip).
  StepModel(const Module& module, const Chip& chip, const Mesh* mesh, const Network* network,
            ModuleKernels& kernels, const StepModelOptions& options);
  ~StepModel();

  // Returns the cost of `trips` executions in a row; computed once for each pair. The reference is
  // valid as long as the model.
  const ComputationCost& Of(const Computation& computation, double trips = 1);
  // In the order in which they were met.
  const std::vector<LoopCountedOnce>& loops_counted_once() const { return loops_counted_once_; }
  bool has_conditionals() const { return has_conditionals_; }
  // True if something goes to or comes from the host. Transfers have a link stream of their own,
  // after those of the network.
  bool has_host_transfers() const { return has_host_transfers_; }
  // True if something is copied within device memory beside compute: on another stream, after that.
  bool has_copies() const { return has_copies_; }
  // Loops whose devices take known branches, in the order in which they were met, callees first.
  const std::vector<std::unique_ptr<BranchedLoop>>& branched_loops() const {
    return branched_loops_;
  }

 private:
  friend class StepBuilder;

  std::unique_ptr<ComputationCost> Build(const Computation& computation, double trips,
                                         const BranchMixes* mixes);
  // Null where it is not known which branches the loop's trips take.
  const BranchedLoop* BranchesOf(const Instruction& loop);

  const Module& module_;
  const Chip& chip_;
  const Network* network_;
  ModuleKernels& kernels_;
  StepModelOptions options_;
  CollectiveCosts collectives_;
  std::map<std::pair<const Computation*, double>, std::unique_ptr<ComputationCost>> costs_;
  std::vector<std::unique_ptr<ComputationCost>> mixed_bodies_;
  std::vector<std::unique_ptr<BranchedLoop>> branched_loops_;
  std::vector<LoopCountedOnce> loops_counted_once_;
  std::unordered_set<const Instruction*> are_counted_once_;
  bool has_conditionals_ = false, has_host_transfers_ = false, has_copies_ = false;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_STEP_MODEL_H_
