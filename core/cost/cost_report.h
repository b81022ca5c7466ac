// What a per-device program costs: time, traffic, memory. Loops count their trips.
//
// The program is cut into kernels by one fusion model (core/analysis/kernels/fusion.h); each takes
// the time of its work on the chip (core/cost/kernel_time.h); collectives take the time of the best
// algorithm on the chip's network (core/cost/network.h); a list-scheduled simulation
// (core/cost/step_model.h, schedule.h) lays both on streams. See docs/cost.md.
#ifndef GSHARD_CORE_COST_COST_REPORT_H_
#define GSHARD_CORE_COST_COST_REPORT_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cost/chip.h"
#include "core/cost/collective_cost.h"
#include "core/cost/memory/peak_memory.h"
#include "core/cost/pipeline_report.h"
#include "core/cost/step_model.h"
#include "core/cost/timeline.h"
#include "ir/module.h"

namespace gshard {

class KnownMaskedShares;

// Parts of the step time; they add up to it.
struct CostBreakdown {
  double dot_s = 0;
  double attention_s = 0;
  double movement_s = 0;
  double other_s = 0;
  double exposed_communication_s = 0;
  double bubble_s = 0;  // waiting for stages whose tick takes longer: mean over devices
  double Total() const {
    return dot_s + attention_s + movement_s + other_s + exposed_communication_s + bubble_s;
  }
};

// One kernel: a fusion, a dot, an attention kernel, .. Figures are of one step, loops multiplied.
struct KernelRow {
  const Instruction* root = nullptr;  // names it
  const Instruction* main = nullptr;  // whose opcode and source line stand for it: its dot, ..
  WorkClass work_class = WorkClass::kOther;
  double count = 0;  // executions
  double flops = 0;
  double transcendentals = 0;
  double bytes = 0;   // to and from memory
  double time_s = 0;  // on the compute stream
  // Time by the estimates of the compiler, if the text is compiled and has them; and by the model.
  std::optional<double> text_time_s;
  double model_time_s = 0;
};

// One collective instruction (its start half). Figures are of one step, loops multiplied.
struct CollectiveCall {
  const Instruction* instruction = nullptr;
  CollectiveCost cost;   // of one execution
  double count = 0;      // executions
  double time_s = 0;     // on its links
  double exposed_s = 0;  // part of time_s in which the compute units wait
};

// Sums over kernels and collectives that have something in common.
struct WorkRow {
  std::string key;  // opcode, "file.py:12", or what --group-by captured; empty: has none
  double count = 0;
  double flops = 0;
  double bytes = 0;                // to and from memory
  double communication_bytes = 0;  // sent
  double time_s = 0;               // compute time + exposed communication: adds up to the step time
  // Times of the kernels among them that the text has its compiler's estimates of: by these, and by
  // the model.
  double text_time_s = 0, model_time_s = 0;
};

// Collectives of one kind along the same axes.
struct CollectiveRow {
  std::string kind;
  std::vector<std::string> axes;
  double count = 0;             // executions in one step
  double bytes_per_device = 0;  // sent in one step
  double time_s = 0;
  double exposed_s = 0;  // part of time_s in which the compute units wait
  std::string cause;     // of its most expensive instruction
  double cause_bytes = 0;
  std::string op_name = {};  // of that, where no cause is known

  const std::string& Because() const { return cause.empty() ? op_name : cause; }
};

struct CostReport {
  int64_t devices = 1;
  std::string chip;
  Chip::Stack stack = Chip::Stack::kJax;
  double sustained = 1;             // of the chip's rates: Chip::StackRates
  std::vector<MeshAxis> mesh;       // named, or inferred: axis0, axis1, ..; empty for one device
  std::string propagation;          // "gspmd", "shardy"; empty: the text came partitioned
  bool mesh_is_inferred = false;    // the text names no axes
  std::string network;              // "data -> x, model -> y+core; x=8, y=8, core=2"
  Overlap overlap = Overlap::kXla;  // never kChipDefault
  bool uses_text_cycles = true;
  // step_time_s = compute_time_s + exposed_communication_s + breakdown.bubble_s, where
  // compute_time_s = breakdown.dot_s + attention_s + movement_s + other_s.
  double step_time_s = 0;
  double compute_time_s = 0;  // sum over kernels, with what compute waits for copies
  double exposed_communication_s = 0;
  double recompute_s = 0;  // part of step_time_s: rematerialised kernels, waits for repeated
                           // collectives
  CostBreakdown breakdown;
  double flops_per_device = 0;
  double transcendentals_per_device = 0;
  double useful_flops_per_device = 0;  // of the unpartitioned program without recomputation and
                                       // masked scores, divided by the devices
  // Parts of flops_per_device that a perfect program would not do.
  double recompute_flops_per_device = 0;  // rematerialised
  double padding_flops_per_device = 0;    // on the padding of tiles that do not divide evenly, and
                                          // repeated on devices that compute the same
  double masked_flops_per_device = 0;     // attention scores that a causal mask throws away
  bool tells_recomputation = true;        // false: the text has no op_name, see recomputation.h
  // Peak: Chip::NominalFlops, the rate of bf16 whatever types the program has.
  double mfu = 0;  // useful FLOPs / (step time * peak)
  double hfu = 0;  // FLOPs done, not masked / (step time * peak)
  double hbm_bytes_per_device = 0;
  MemoryReport memory;
  std::vector<CollectiveRow> collectives;        // by bytes, largest first
  std::vector<CollectiveCall> collective_calls;  // by exposed time, then time, largest first
  std::vector<KernelRow> kernels;                // by time, largest first
  std::vector<WorkRow> by_opcode, by_source;     // by time, largest first
  std::vector<WorkRow> by_group;                 // of CostOptions::group_by; empty without it
  Timeline timeline;
  std::optional<PipelineReport> pipeline;  // of programs that run in stages
  // Step time if every conditional took the mean of its branches; the rest of the report takes the
  // most expensive branch.
  double mean_branch_step_time_s = 0;
  std::vector<LoopCountedOnce> loops_counted_once;
  // Most groups of a ragged-dot whose rows the chip multiplies by all matrices; 0: there is none.
  int64_t dense_ragged_dot_groups = 0;
  // The same of ragged-dots that the text writes out so, as JAX does for CPUs; 0: there is none.
  int64_t written_out_ragged_dot_groups = 0;
  // Targets of custom calls of which nothing is known but what they read and write, by name.
  std::vector<std::string> unknown_calls;
  int64_t python_partitioned_calls = 0;  // to kPythonPartitionedTarget (ir/custom_call.h)
  // Of a program that spells attention out, where flash kernels are counted for it: as it is
  // written, which is what XLA makes of it. By TellAttentionAsWritten.
  struct AsWritten {
    double step_time_s = 0;
    int64_t peak_bytes = 0;
  };
  std::optional<AsWritten> attention_as_written;
};

struct CostOptions {
  // TotalFlops (core/cost/useful_flops.h) of the unpartitioned program, where known.
  std::optional<double> useful_flops;
  Overlap overlap = Overlap::kChipDefault;
  // Attention is one kernel (false: dots and softmax apart, scores go through memory).
  bool fuse_attention = true;
  // RE2 pattern on op_name: by_group's key is its first capture, or the whole match. Must compile.
  std::string group_by;
  // Kernels take the cycles that a compiled text says of them (ir/compiled_text.h), if the
  // chip's clock is known; else what the model says.
  bool uses_text_cycles = true;
  // Mesh axis -> physical dims of the chip's network, "x+y"; axes not named take the default.
  std::map<std::string, std::string> mesh_map;
  // Options of the memory model that replace those that follow from the chip.
  std::optional<Tiling> tiling;
  // MemoryOptions::combine_bytes: independent all-reduces become one up to so many bytes. 0: as the
  // chip's compiler does. Times are those of the collectives as the text has them.
  int64_t combine_bytes = 0;
  // What masks of attention cut off in programs that were priced before; null: nothing is known.
  KnownMaskedShares* masked_shares = nullptr;
};

// Options of the memory model that follow from the chip: memory is cut into the same kernels as
// time.
MemoryOptions MemoryOptionsOf(const Chip& chip);
// The same options with those that `options` replace.
MemoryOptions MemoryOptionsOf(const Chip& chip, const CostOptions& options);

// `module` is partitioned (or runs on one device). Not const: meshes are interned in its context.
// Errors (E-COST-003): a mesh map that the chip's network does not have; (E-COST-004): an invalid
// pattern. core/estimate/device_program.h says which function of this kind to call.
Expected<CostReport> EstimateCost(Module& module, const Chip& chip,
                                  const CostOptions& options = {});

// Adds attention_as_written to the report that EstimateCost has made of the module, where flash
// kernels were counted for attention that is spelled out and the chip runs what XLA makes of it.
void TellAttentionAsWritten(Module& module, const Chip& chip, CostOptions options,
                            CostReport& report);

// The figures by which programs are compared: those of the report, to rounding, by the same names.
struct StepFigures {
  double step_time_s = 0;
  double compute_time_s = 0;
  double exposed_communication_s = 0;
  double bubble_share = 0;  // PipelineReport::bubble_share; 0 without stages
  double flops_per_device = 0;
  double mfu = 0;
  int64_t peak_bytes = 0;
};

// The figures without the report's tables, for searches over many programs. `module` is as in
// EstimateCost and must not be used further: it is changed as a compiler would before it places
// buffers. Errors: E-COST-003.
Expected<StepFigures> EstimateStep(Module& module, const Chip& chip,
                                   const CostOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_COST_COST_REPORT_H_
