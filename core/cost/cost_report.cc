// Sums a step's schedules into a report. See cost_report.h.

#include "core/cost/cost_report.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "core/analysis/meshes.h"
#include "core/cost/custom_call_work.h"
#include "core/cost/kernel_time.h"
#include "core/cost/op_name_group.h"
#include "core/cost/priced_step.h"
#include "core/cost/recomputation.h"
#include "core/cost/step_model.h"
#include "core/cost/work_totals.h"
#include "ir/attribute_names.h"
#include "ir/compiled_text.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

// XLA's compiler for TPUs computes values again until a program takes no more of the memory (its
// own words, of v3, v5e, v5p and v6e: docs/memory.md).
constexpr double kTpuFillsShare = 0.95;

// Sums up schedules from the entry's down, each once, multiplied by how often it runs.
class ReportBuilder {
 public:
  ReportBuilder(const Module& module, CostReport& report, const OpNameGroup* group)
      : source_lines_(module), report_(report), group_(group) {}

  void Run(const ComputationCost& entry) {
    report_.step_time_s = entry.schedule.seconds;
    Visit(entry);
    runs_[&entry].all = 1;
    for (auto cost = post_order_.rbegin(); cost != post_order_.rend(); ++cost) {
      Add(**cost, runs_[*cost]);
    }
    FinishRows();
    double busy = 0;
    for (const KernelRow& kernel : report_.kernels) busy += kernel.time_s;
    report_.compute_time_s = busy;
    CostBreakdown& parts = report_.breakdown;
    report_.exposed_communication_s = std::max(0.0, report_.step_time_s - busy - parts.bubble_s);
    parts.exposed_communication_s = report_.exposed_communication_s;
  }

 private:
  // Executions. `again`: of them, those by a loop or call that is recomputed as a whole.
  struct Runs {
    double all = 0, again = 0;
    Runs operator*(double times) const { return {times * all, times * again}; }
  };

  void Visit(const ComputationCost& cost) {
    if (!runs_.try_emplace(&cost).second) return;
    for (const StepNode& step : cost.steps) {
      for (const auto& [callee, runs] : step.callees) Visit(*callee);
    }
    post_order_.push_back(&cost);
  }

  // `runs`: of the whole schedule, which covers cost.trips trips. All callers have been added.
  void Add(const ComputationCost& cost, const Runs& runs) {
    const Runs counts = runs * cost.trips;
    const double count = counts.all;
    for (size_t i = 0; i < cost.steps.size(); ++i) {
      const StepNode& step = cost.steps[i];
      const double exposed = runs.all * cost.schedule.exposed_s[i];
      switch (step.kind) {
        case StepNode::Kind::kKernel:
          AddKernel(step, cost.nodes[i].seconds, counts);
          break;
        case StepNode::Kind::kCollective:
          AddCollective(step, counts, exposed);
          break;
        case StepNode::Kind::kLoop:
        case StepNode::Kind::kCallee:
          for (const auto& [callee, times] : step.callees) {
            const bool is_again = IsRecomputed(*step.instruction);
            runs_[callee].all += count * times;
            runs_[callee].again += times * (is_again ? count : counts.again);
          }
          if (step.idle_s > 0) AddBubble(*step.instruction, count, count * step.idle_s);
          break;
        case StepNode::Kind::kCopy:  // only what compute waits for
          AddKernel(step, count > 0 ? exposed / count : 0, counts);
          break;
      }
    }
  }

  void AddKernel(const StepNode& step, double seconds, const Runs& counts) {
    const double count = counts.all, once = count - counts.again;
    const KernelWork& work = step.work;
    report_.flops_per_device += count * work.flops;
    report_.transcendentals_per_device += count * work.transcendentals;
    report_.recompute_flops_per_device += counts.again * work.flops + once * step.recompute_flops;
    report_.masked_flops_per_device += count * work.masked_flops;
    const bool is_again = work.main != nullptr && IsRecomputed(*work.main);
    report_.recompute_s += (is_again ? count : counts.again) * seconds;
    if (work.is_scalar) return;
    report_.hbm_bytes_per_device += count * work.bytes;
    auto [it, is_new] = kernel_of_.try_emplace(step.instruction, report_.kernels.size());
    if (is_new) {
      KernelRow fresh;
      fresh.root = step.instruction;
      fresh.main = work.main;
      fresh.work_class = work.work_class;
      report_.kernels.push_back(fresh);
    }
    KernelRow& row = report_.kernels[it->second];
    row.count += count;
    row.flops += count * work.flops;
    row.transcendentals += count * work.transcendentals;
    row.bytes += count * work.bytes;
    row.time_s += count * seconds;
    row.model_time_s += count * step.model_s;
    if (step.text_s) row.text_time_s = row.text_time_s.value_or(0) + count * *step.text_s;
    CostBreakdown& parts = report_.breakdown;
    double& part = work.work_class == WorkClass::kDot         ? parts.dot_s
                   : work.work_class == WorkClass::kAttention ? parts.attention_s
                   : work.work_class == WorkClass::kMovement  ? parts.movement_s
                                                              : parts.other_s;
    part += count * seconds;
  }

  // Waiting for devices whose branch takes longer.
  void AddBubble(const Instruction& conditional, double count, double seconds) {
    report_.breakdown.bubble_s += seconds;
    AddWork(conditional, {"", count, 0, 0, 0, seconds});
  }

  void AddCollective(const StepNode& step, const Runs& counts, double exposed) {
    const double count = counts.all;
    report_.flops_per_device += count * step.work.flops;
    report_.hbm_bytes_per_device += count * step.work.bytes;
    if (IsRecomputed(*step.instruction)) {
      report_.recompute_s += exposed;
    } else if (count > 0) {
      report_.recompute_s += exposed * counts.again / count;
    }
    auto [it, is_new] = call_of_.try_emplace(step.instruction, report_.collective_calls.size());
    if (is_new) report_.collective_calls.push_back({step.instruction, step.collective, 0, 0, 0});
    CollectiveCall& call = report_.collective_calls[it->second];
    call.count += count;
    call.time_s += count * step.collective.time_s;
    call.exposed_s += exposed;
  }

  void AddCollectiveRow(const CollectiveCall& call) {
    CollectiveRow& row = rows_[{call.cost.kind, call.cost.axes}];
    const double bytes = call.count * call.cost.bytes_per_device;
    if (row.count == 0 || bytes > row.cause_bytes) {
      row.cause = call.cost.cause;
      row.op_name = row.cause.empty() ? OpNameOf(*call.instruction) : "";
      if (row.cause.empty() && row.op_name.empty()) {  // of a fusion, which may have none
        row.op_name = OpNameOf(*CollectiveOf(call.instruction));
      }
      row.cause_bytes = bytes;
    }
    row.kind = call.cost.kind;
    row.axes = call.cost.axes;
    row.count += call.count;
    row.bytes_per_device += bytes;
    row.time_s += call.time_s;
    row.exposed_s += call.exposed_s;
  }

  using Rows = std::map<std::string, WorkRow>;
  void AddWork(const Instruction& main, const WorkRow& work) {
    auto add = [&](Rows& rows, std::string key) {
      WorkRow& row = rows[key];
      row.key = std::move(key);
      row.count += work.count;
      row.flops += work.flops;
      row.bytes += work.bytes;
      row.communication_bytes += work.communication_bytes;
      row.time_s += work.time_s;
      row.text_time_s += work.text_time_s;
      row.model_time_s += work.model_time_s;
    };
    add(by_opcode_, std::string(OpcodeName(main.opcode())));
    add(by_source_, source_lines_.TextOf(main));
    if (group_ != nullptr) add(by_group_, group_->Of(main));
  }

  static std::vector<WorkRow> Sorted(Rows& rows) {
    std::vector<WorkRow> list;
    for (auto& [key, row] : rows) list.push_back(std::move(row));
    std::stable_sort(list.begin(), list.end(),
                     [](const WorkRow& a, const WorkRow& b) { return a.time_s > b.time_s; });
    return list;
  }

  void FinishRows() {
    for (const KernelRow& kernel : report_.kernels) {
      WorkRow work{"", kernel.count, kernel.flops, kernel.bytes, 0, kernel.time_s};
      if (kernel.text_time_s) {
        work.text_time_s = *kernel.text_time_s;
        work.model_time_s = kernel.model_time_s;
      }
      AddWork(*kernel.main, work);
    }
    for (const CollectiveCall& call : report_.collective_calls) {
      AddCollectiveRow(call);
      AddWork(*call.instruction,
              {"", call.count, 0, 0, call.count * call.cost.bytes_per_device, call.exposed_s});
    }
    report_.by_opcode = Sorted(by_opcode_);
    report_.by_source = Sorted(by_source_);
    report_.by_group = Sorted(by_group_);
    for (auto& [key, row] : rows_) report_.collectives.push_back(std::move(row));
    std::stable_sort(report_.collectives.begin(), report_.collectives.end(),
                     [](const CollectiveRow& a, const CollectiveRow& b) {
                       return a.bytes_per_device > b.bytes_per_device;
                     });
    std::stable_sort(report_.collective_calls.begin(), report_.collective_calls.end(),
                     [](const CollectiveCall& a, const CollectiveCall& b) {
                       return a.exposed_s != b.exposed_s ? a.exposed_s > b.exposed_s
                                                         : a.time_s > b.time_s;
                     });
    std::stable_sort(report_.kernels.begin(), report_.kernels.end(),
                     [](const KernelRow& a, const KernelRow& b) { return a.time_s > b.time_s; });
  }

  const SourceLines source_lines_;
  CostReport& report_;
  const OpNameGroup* group_;
  std::vector<const ComputationCost*> post_order_;  // callees first
  std::unordered_map<const ComputationCost*, Runs> runs_;
  std::unordered_map<const Instruction*, size_t> kernel_of_, call_of_;
  std::map<std::pair<std::string, std::vector<std::string>>, CollectiveRow> rows_;
  Rows by_opcode_, by_source_, by_group_;
};

// Lays the schedules' events on one time axis, loops with one trip inside.
class TimelineBuilder {
  // Callees of more are not drawn: nests of calls are as long as the step.
  static constexpr size_t kMaxEvents = 200000;

 public:
  TimelineBuilder(const Network& network, const StepModel& model, Timeline& timeline)
      : timeline_(timeline) {
    timeline_.streams.emplace_back("compute");
    for (const NetworkDim& dim : network.dims()) {
      timeline_.streams.push_back(dim.name + " links");
    }
    if (model.has_host_transfers()) timeline_.streams.emplace_back("host link");
    if (model.has_copies()) timeline_.streams.emplace_back("copy engines");
  }

  void Run(const ComputationCost& entry) {
    Add(entry, 0, 1, -1, true);
    for (size_t i = 0; i < timeline_.events.size(); ++i) {
      if (timeline_.events[i].is_critical) timeline_.critical_path.push_back(i);
    }
  }

 private:
  void Add(const ComputationCost& cost, double start, double trips, int parent, bool is_critical) {
    for (const ScheduledEvent& scheduled : cost.schedule.events) {
      const size_t node = static_cast<size_t>(scheduled.node);
      const StepNode& step = cost.steps[node];
      TimelineEvent event;
      event.instruction = step.instruction;
      event.start_s = start + scheduled.start_s;
      event.end_s = start + scheduled.end_s;
      event.trip_count = trips;
      event.kind_start_s = start;
      event.parent = parent;
      event.is_critical = is_critical && scheduled.is_critical;
      switch (step.kind) {
        case StepNode::Kind::kKernel:
          event.work_class = step.work.work_class;
          break;
        case StepNode::Kind::kCollective:
          event.work_class = WorkClass::kCollective;
          event.stream = StreamOf(cost.nodes[node]);
          break;
        case StepNode::Kind::kCopy:
          event.work_class = WorkClass::kMovement;
          if (cost.nodes[node].links != 0) event.stream = StreamOf(cost.nodes[node]);
          break;
        case StepNode::Kind::kLoop:
        case StepNode::Kind::kCallee:
          event.work_class = WorkClass::kLoop;
          break;
      }
      timeline_.events.push_back(event);
      if (event.work_class != WorkClass::kLoop) continue;
      if (timeline_.events.size() < kMaxEvents) AddCallees(step, event);
    }
  }

  // The first of the link streams that a node takes.
  int StreamOf(const ScheduleNode& node) const {
    if (node.links == 0) return static_cast<int>(timeline_.streams.size()) > 1 ? 1 : 0;
    return std::min(1 + std::countr_zero(node.links),
                    static_cast<int>(timeline_.streams.size()) - 1);
  }

  // Of a loop one trip of each kind, one after the other; of branches the one that takes the time.
  void AddCallees(const StepNode& step, const TimelineEvent& event) {
    const int parent = static_cast<int>(timeline_.events.size()) - 1;
    if (step.slowest != nullptr) {
      // Where few wait for it the mean is shorter: there is no one branch to draw.
      if (step.slowest->schedule.seconds > step.mix_s * (1 + 1e-9)) return;
      Add(*step.slowest, event.start_s, event.trip_count, parent, event.is_critical);
      return;
    }
    const bool is_loop = step.kind == StepNode::Kind::kLoop;
    double start = event.start_s;
    for (size_t i = is_loop ? 1 : 0; i < step.callees.size(); ++i) {  // without the condition
      const ComputationCost& callee = *step.callees[i].first;
      Add(callee, start, event.trip_count * callee.trips, parent, event.is_critical);
      if (is_loop) start += callee.schedule.seconds / callee.trips;
    }
  }

  Timeline& timeline_;
};

// How often a product sums over masked copies of its operand's rows: 64 times those of
// select(mask[64,T,D], broadcast(x[T,D]), 0), as JAX writes lax.ragged_dot for CPUs. 0: they are
// none.
int64_t MaskedCopies(const Instruction* operand, std::span<const int64_t> contracted) {
  if (operand->opcode() != Opcode::kSelect) return 0;
  const Instruction* rows = operand->operand(1);
  const bool is_masked =
      rows->opcode() == Opcode::kBroadcast && rows->operand(0)->shape()->rank() > 0;
  const Instruction* masked = operand->operand(2);
  if (!is_masked || masked->opcode() != Opcode::kBroadcast ||
      masked->operand(0)->shape()->rank() > 0 || contracted.size() < 2) {
    return 0;
  }
  std::span<const int64_t> kept = rows->attributes<DimensionsAttributes>().dimensions;
  int64_t copies = 1;
  for (const int64_t dim : contracted) {
    if (std::ranges::find(kept, dim) == kept.end()) copies *= operand->shape()->dim(dim);
  }
  return copies > 1 ? copies : 0;
}

// Most groups of ragged-dots that are dense products: as the chip's compiler makes them, and as the
// text itself writes them out.
void CountDenseRaggedDots(const Module& module, CostReport& report) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kDot) continue;
      const std::string groups =
          FrontendAttribute(x->frontend_attributes(), kRaggedGroupsAttribute);
      if (!groups.empty()) {
        int64_t& most = report.dense_ragged_dot_groups;
        most = std::max<int64_t>(most, std::strtoll(groups.c_str(), nullptr, 10));
        continue;
      }
      const auto& dims = x->attributes<DotAttributes>();
      int64_t& most = report.written_out_ragged_dot_groups;
      most = std::max({most, MaskedCopies(x->operand(0), dims.lhs_contracting),
                       MaskedCopies(x->operand(1), dims.rhs_contracting)});
    }
  }
}

// Custom calls that the report has to speak of.
void CountCustomCalls(const Module& module, CostReport& report) {
  std::set<std::string, std::less<>> unknown;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kCustomCall) continue;
      if (IsCustomCallTo(*x, kPythonPartitionedTarget)) ++report.python_partitioned_calls;
      if (HasUnknownWork(*x)) unknown.emplace(x->attributes<CustomCallAttributes>().target);
    }
  }
  report.unknown_calls.assign(unknown.begin(), unknown.end());
}

}  // namespace

MemoryOptions MemoryOptionsOf(const Chip& chip) {
  MemoryOptions options;
  options.fusion = FusionOptionsOf(chip);
  options.fast_memory_bytes = chip.fast_memory_bytes;
  if (options.fusion.for_tpu) {
    options.tiling = chip.overlaps_collectives ? Tiling::kTpu : Tiling::kTpuV3;
  }
  if (chip.all_reduce_combine_bytes > 0) options.combine_bytes = chip.all_reduce_combine_bytes;
  return options;
}

MemoryOptions MemoryOptionsOf(const Chip& chip, const CostOptions& options) {
  MemoryOptions memory = MemoryOptionsOf(chip);
  // Of a TPU, its own.
  const bool is_own = options.tiling == Tiling::kTpu && IsOfTpu(memory.tiling);
  if (!is_own) memory.tiling = options.tiling.value_or(memory.tiling);
  memory.fuse_attention = options.fuse_attention;
  if (options.combine_bytes > 0) memory.combine_bytes = options.combine_bytes;
  return memory;
}

Expected<CostReport> EstimateCost(Module& module, const Chip& chip, const CostOptions& options) {
  std::optional<OpNameGroup> group;
  if (!options.group_by.empty()) {
    Expected<OpNameGroup> parsed = OpNameGroup::Parse(options.group_by);
    if (!parsed) return Fail(std::move(parsed.error()));
    group.emplace(*std::move(parsed));
  }
  Expected<PricedStep> priced = PricedStep::Make(module, chip, options);
  if (!priced) return Fail(std::move(priced.error()));
  CostReport report;
  report.devices = priced->devices;
  report.chip = chip.name;
  report.stack = chip.stack;
  report.sustained = chip.OfStack().sustained;
  report.overlap = priced->overlap;
  report.uses_text_cycles = options.uses_text_cycles;
  if (priced->mesh != nullptr) report.mesh = priced->mesh->axes;
  report.mesh_is_inferred = priced->mesh != nullptr && NamedMesh(module) == nullptr;
  report.network = priced->network->Description();
  ReportBuilder(module, report, group ? &*group : nullptr).Run(*priced->entry);
  TimelineBuilder(*priced->network, *priced->model, report.timeline).Run(*priced->entry);
  report.loops_counted_once = priced->model->loops_counted_once();
  CountCustomCalls(module, report);
  if (!IsCompiled(module)) CountDenseRaggedDots(module, report);
  report.mean_branch_step_time_s = report.step_time_s;
  if (priced->model->has_conditionals()) {
    const auto means = priced->MakeModel({report.overlap, true, options.uses_text_cycles});
    report.mean_branch_step_time_s = means->Of(*module.entry()).schedule.seconds;
  }
  const double masked_once = WorkTotalsTable().Of(*priced->entry).masked_flops;
  report.useful_flops_per_device =
      priced->UsefulFlops(options.useful_flops, report.flops_per_device,
                          report.recompute_flops_per_device, masked_once);
  report.pipeline = std::move(priced->pipeline);
  report.padding_flops_per_device =
      std::max(0.0, report.flops_per_device - report.recompute_flops_per_device - masked_once -
                        report.useful_flops_per_device);
  report.tells_recomputation = TellsRecomputation(module);
  const double capacity = report.step_time_s * chip.NominalFlops();
  if (capacity > 0) {
    report.mfu = report.useful_flops_per_device / capacity;
    report.hfu = (report.flops_per_device - report.masked_flops_per_device) / capacity;
  }
  const MemoryOptions memory_options = MemoryOptionsOf(chip, options);
  if (report.pipeline) {
    EstimateMemory(module, memory_options, *priced->kernels, *report.pipeline, report.memory);
  } else {
    report.memory = PeakMemory(module, memory_options, priced->kernels.get());
  }
  report.memory.limit_bytes = static_cast<int64_t>(chip.hbm_bytes);
  report.memory.limit_name = chip.name;
  if (chip.compiler == Chip::Compiler::kTpu && !module.header().is_scheduled) {
    report.memory.recomputed_beyond_bytes = static_cast<int64_t>(kTpuFillsShare * chip.hbm_bytes);
  }
  return report;
}

void TellAttentionAsWritten(Module& module, const Chip& chip, CostOptions options,
                            CostReport& report) {
  const bool counts_kernels = options.fuse_attention && report.breakdown.attention_s > 0;
  if (!counts_kernels || chip.stack != Chip::Stack::kJax) return;
  options.fuse_attention = false;
  Expected<PricedStep> priced = PricedStep::Make(module, chip, options);
  if (!priced) return;
  const MemoryOptions memory_options = MemoryOptionsOf(chip, options);
  MemoryReport memory;
  if (priced->pipeline) {
    EstimateMemory(module, memory_options, *priced->kernels, *priced->pipeline, memory);
  } else {
    memory = PeakMemory(module, memory_options, priced->kernels.get());
  }
  const CostReport::AsWritten written{priced->entry->schedule.seconds, memory.peak_bytes};
  const bool is_same =
      written.step_time_s == report.step_time_s && written.peak_bytes == report.memory.peak_bytes;
  if (!is_same) report.attention_as_written = written;
}

Expected<StepFigures> EstimateStep(Module& module, const Chip& chip, const CostOptions& options) {
  StepFigures figures;
  std::unique_ptr<ModuleKernels> kernels;
  {
    Expected<PricedStep> priced = PricedStep::Make(module, chip, options);
    if (!priced) return Fail(std::move(priced.error()));
    WorkTotalsTable table;
    const WorkTotals& totals = table.Of(*priced->entry);
    figures.step_time_s = priced->entry->schedule.seconds;
    figures.compute_time_s = totals.busy_s + totals.copy_s;
    figures.exposed_communication_s =
        std::max(0.0, figures.step_time_s - figures.compute_time_s - totals.idle_s);
    figures.flops_per_device = totals.flops;
    if (priced->pipeline) figures.bubble_share = priced->pipeline->bubble_share;
    const double capacity = figures.step_time_s * chip.NominalFlops();
    if (capacity > 0) {
      figures.mfu = priced->UsefulFlops(options.useful_flops, totals.flops, totals.recompute_flops,
                                        totals.masked_flops) /
                    capacity;
    }
    kernels = std::move(priced->kernels);
  }
  figures.peak_bytes = PeakBytes(module, MemoryOptionsOf(chip, options), kernels.get());
  return figures;
}

}  // namespace gshard
