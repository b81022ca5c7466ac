// Automatic sharding: from a program and a mesh to the few annotations of the best plan found, what
// it costs, how far it is from perfect scaling, and alternatives with a command for each.
// docs/auto.md.
#ifndef GSHARD_CORE_AUTOSHARD_AUTO_SHARDING_H_
#define GSHARD_CORE_AUTOSHARD_AUTO_SHARDING_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/autoshard/plan_pricer.h"
#include "core/transforms/annotations/annotate.h"
#include "ir/module.h"

namespace gshard::autoshard {

// Which of the user's annotations stay.
enum class Keep : uint8_t { kAll, kInputsAndOutputs, kNone };

struct AutoOptions {
  std::vector<MeshAxis> mesh;
  PricingOptions pricing;
  int64_t limit_bytes = 0;  // memory of one device; 0: no limit
  // Most plans to price, beside those of known styles (seeds.h); over all meshes of
  // ShardOverDevices. 0: on each mesh as many as take a few seconds, by the size of the program.
  int64_t evaluations = 0;
  // Limits the number of evaluations further, to those that two cores price in so many seconds by
  // an estimate; the same number on every machine. 0: no limit.
  double seconds = 0;
  // A plan whose time is within this share of perfect scaling's ends the search: none is faster by
  // more. 0: none ends it.
  double within = 0.005;
  Keep keep = Keep::kInputsAndOutputs;
  // Rules of the user, applied after `keep`; the spec "free" takes an annotation away.
  std::vector<AnnotationRule> rules;
  bool zero = true;                // weight updates may be cut
  bool remat = true;               // values may be computed again so that a plan fits or is faster
  bool seeks_least_memory = true;  // where no plan fits, a search for the smallest follows
  size_t top = 10;                 // most plans to report
  // The fastest plan of tensor parallelism and that of FSDP are told, too, if they are not the
  // best.
  bool tells_styles = false;
  // The next five are read by ShardOverDevices only.
  bool pipelines = true;                      // pipelines are tried, too
  std::vector<int64_t> stages, microbatches;  // numbers that are allowed; empty: any
  std::vector<std::string> schedules;         // that are allowed; empty: all but shift
  std::string chip_flag = "--chip tpu-v3";    // flag that names pricing.chip in printed commands
};

// Returns the number of plans of `module`, which is without calls, that `evaluations` and `seconds`
// allow to price.
int64_t EvaluationLimit(const Module& module, const AutoOptions& options);

// The annotations of one group, as rules for `gshard-opt annotate`.
struct PlannedRule {
  std::string pattern, spec;
  std::string what;     // "weights", "inputs", "products", "results", "annotated"
  std::string example;  // name of a member
  std::string shape;    // "f32[32,4096]"
  int64_t instructions = 0;
};

// A plan in the words of the report. Figures are gshard-cost's for the plan's text.
struct AutoPlan {
  std::vector<MeshAxis> mesh;
  bool zero = false, remat = false;
  int64_t stages = 1, microbatches = 1;
  std::string schedule;  // of a pipeline
  double step_time_s = 0, exposed_communication_s = 0, mfu = 0, bubble_share = 0;
  int64_t peak_bytes = 0;
  bool fits = true, pareto = false;
  std::string why;              // the largest part of the time: "dots 81 %"
  std::string largest_at_peak;  // "argument 1.50 GiB of Arg_0.1"
  int64_t annotations = 0;
  std::vector<PlannedRule> rules;
  std::string command;  // a shell command that makes the plan's text of the input
  // The program with the user's annotations just as they are; `rules` are empty then.
  bool is_written = false;
};

struct AutoResult {
  std::string module, chip, overlap;
  int64_t devices = 0, limit_bytes = 0;
  int64_t evaluations = 0, refused = 0;  // plans priced; those of them that cannot be partitioned
  double one_device_s = 0;               // time of the step on one device / number of devices
  // The same of the faster one of that step and of its best with values computed again, if these
  // are allowed.
  double perfect_s = 0;
  // perfect_s, or the least time of a plan told without its exposed communication, if that is less.
  double bound_s = 0;
  double gap = 0;                  // time of the best plan / bound_s - 1
  std::string searched;            // in words
  std::vector<AutoPlan> plans;     // best first, then those that do not fit
  std::vector<std::string> texts;  // HLO of `plans`; of ShardOverDevices of the first alone
  // The program as the user annotated it, if that is for this mesh. Among `plans` only if the first
  // is no better.
  std::optional<AutoPlan> written;
  // Of the user, of values that no plan could cut otherwise; `keeps`: which were to stay.
  int64_t kept_annotations = 0;
  Keep keeps = Keep::kInputsAndOutputs;
  // Attention is spelled out, and flash kernels are counted for it.
  bool counts_flash_kernels = false;
};

// Searches for the best plan of `module`, which is used up, on options.mesh. `input`: name of the
// input in printed commands. Errors: what partitioning refuses; a program of one device
// (E-AUTO-002); annotations that stay but are for another mesh (E-AUTO-003).
Expected<AutoResult> ShardAutomatically(std::unique_ptr<Module> module, const std::string& input,
                                        const AutoOptions& options);

// Searches over the meshes of a number of devices: every mesh of one or two axes, data and model,
// major first. The best mesh is then also tried with three axes, if it has two. All meshes are
// looked at with few evaluations, the best four of them are searched in full. Then pipelines are
// tried whose stages have the best plan of their devices (pipelined_plans.h). `options.mesh` is not
// read. Errors: those of the first mesh, if all have one.
Expected<AutoResult> ShardOverDevices(const Module& module, const std::string& input,
                                      int64_t devices, const AutoOptions& options);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_AUTO_SHARDING_H_
