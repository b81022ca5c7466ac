#include "core/pipeline/pipeline.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/meshes.h"
#include "core/cost/op_cost.h"
#include "core/pipeline/accumulated_parts.h"
#include "core/pipeline/alike/entering_cotangents.h"
#include "core/pipeline/alike/entering_examples.h"
#include "core/pipeline/alike/own_activations.h"
#include "core/pipeline/emit/emission.h"
#include "core/pipeline/emit/pass_values.h"
#include "core/pipeline/emit/stages.h"
#include "core/pipeline/joined_batches.h"
#include "core/pipeline/part_sums.h"
#include "core/pipeline/plan/balance.h"
#include "core/pipeline/plan/layer_constants.h"
#include "core/pipeline/plan/layer_loops.h"
#include "core/pipeline/plan/phases.h"
#include "core/pipeline/plan/shift_schedule.h"
#include "core/pipeline/plan/split_batch.h"
#include "core/pipeline/plan/tuple_elements.h"
#include "core/pipeline/plan/unpipelined_shardings.h"
#include "core/pipeline/restack.h"
#include "core/pipeline/rows/region_rows.h"
#include "core/pipeline/rows/row_sums.h"
#include "core/pipeline/scatter_terms.h"
#include "core/pipeline/second_pass.h"
#include "core/pipeline/unrolled_parts.h"
#include "core/pipeline/work.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/device_subsets.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/sharding_text.h"
#include "ir/source_lines.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

constexpr std::string_view kShardyAttribute = "xla.sdy.sharding";

// The user's shardings by name; the module keeps none. Splitting the batch has shardings of its
// own, the rest comes back with the stage axis.
std::unordered_map<std::string, const Sharding*> TakeAnnotations(Module& module) {
  std::unordered_map<std::string, const Sharding*> taken;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const Sharding* s = x->sharding();
      x->set_sharding(nullptr);
      if (!FrontendAttribute(x->frontend_attributes(), kShardyAttribute).empty()) {
        x->set_frontend_attributes("");  // says the same
      }
      if (s == nullptr || !x->shape()->IsArray() || !s->IsTiled()) continue;
      taken.emplace(x->name(), s);
    }
  }
  return taken;
}

// Of the entry's instructions outside manual regions.
ShardingOfInstruction AnnotationsOutside(
    const Module& module, const std::unordered_map<std::string, const Sharding*>& annotations,
    const ManualRegions& regions) {
  ShardingOfInstruction annotation;
  for (const Instruction* x : module.entry()->instructions()) {
    auto it = annotations.find(std::string(x->name()));
    if (it != annotations.end() && !regions.IsInside(x)) annotation[x] = it->second;
  }
  return annotation;
}

// Adds those in regions: manual, or what the text says of a value in a region of some axes.
void AnnotateRegions(const Module& module,
                     const std::unordered_map<std::string, const Sharding*>& annotations,
                     const ManualRegions& regions, ShardingOfInstruction& annotation) {
  for (const Instruction* x : module.entry()->instructions()) {
    if (!regions.IsInside(x) && !regions.Leaves(x)) continue;
    auto it = annotations.find(std::string(x->name()));
    const Sharding* s = regions.ShardingOf(module.context(), x);
    if (s == nullptr && it != annotations.end()) s = it->second;
    if (s != nullptr) annotation[x] = s;
  }
}

// Of the computation itself or of the bodies of its loops.
bool HasBarriers(const Computation& computation) {
  return std::ranges::any_of(computation.instructions(), [](const Instruction* x) {
    return x->opcode() == Opcode::kOptBarrier ||
           (x->opcode() == Opcode::kWhile && HasBarriers(*x->called(1)));
  });
}

// What the barrier `x` makes of each element of a tuple of arrays.
Instruction* BarrierOfEach(Instruction* x, Builder& builder) {
  std::vector<Instruction*> elements;
  for (int64_t i = 0; i < static_cast<int64_t>(x->shape()->elements().size()); ++i) {
    Instruction* const element[] = {builder.GetTupleElement(x->operand(0), i)};
    const Shape* shape = element[0]->shape();
    elements.push_back(shape->IsArray()
                           ? builder.Add(Opcode::kOptBarrier, element, NoAttributes{}, shape)
                           : element[0]);
  }
  return builder.Tuple(elements);
}

// Where the pipeliner rematerialises by stage, barriers of the user's own would keep equal
// recomputations apart. Where they stay (`keeps`), each value has one of its own: what is tied
// together may be of several layers.
void DropBarriers(Module& module, bool keeps) {
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (x->opcode() == Opcode::kOptBarrier) {
      if (!keeps) return x->operand(0);
      return x->shape()->IsTuple() ? BarrierOfEach(x, rewriter.builder()) : x;
    }
    if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
      return x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
    }
    return x;
  });
}

// A constraint is an annotation like any other: a copy holds it.
void CopyConstrained(Module& module) {
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (!IsCustomCallTo(*x, kShardingTarget) || x->operand_count() != 1) return x;
    return rewriter.builder().Add(Opcode::kCopy, {x->operand(0)}, x->shape(), x->name());
  });
}

// Constraints of regions are theirs.
Expected<ManualRegions> HideRegions(Module& module, int64_t devices) {
  Expected<ManualRegions> regions = ManualRegions::Hide(module, devices);
  if (regions) CopyConstrained(module);
  return regions;
}

// A barrier would make another weight of a weight.
void DropBarriersOfWeights(Module& module, const std::unordered_set<int64_t>& data) {
  std::unordered_set<const Instruction*> examples;
  for (const Instruction* x : module.entry()->instructions()) {
    const bool is_data = x->opcode() == Opcode::kParameter &&
                         data.contains(x->attributes<ParameterAttributes>().number);
    const bool follows = std::ranges::any_of(
        x->operands(), [&](const Instruction* from) { return examples.contains(from); });
    if (is_data || follows) examples.insert(x);
  }
  RewriteModule(module, [&](Instruction* x, Rewriter&) -> Instruction* {
    const bool is_of_weight = x->opcode() == Opcode::kOptBarrier && x->parent() == module.entry() &&
                              x->shape()->IsArray() && !examples.contains(x);
    return is_of_weight ? x->operand(0) : x;
  });
}

// Layers one by one, and their gradients as rows.
Expected<void> WriteOutLayers(Module& module, const BatchDims& batch) {
  if (auto written = WriteOutLayerLoops(module, batch.parameters()); !written) {
    return Fail(std::move(written.error()));
  }
  TakeRowsOutside(module, batch.parameters());
  JoinPaddedRows(module);
  if (HasBarriers(*module.entry())) DropBarriersOfWeights(module, batch.parameters());
  return {};
}

using LaterStep = std::function<Expected<void>()>;

// Writes out loops over layers, now or by what is returned: when their bodies are split.
Expected<LaterStep> WriteOutLoops(Module& module, const BatchDims& batch, int64_t microbatches,
                                  int64_t devices) {
  LaterStep write_out = [&module, &batch] { return WriteOutLayers(module, batch); };
  if (devices == 1 && SplitsInLoops(module, batch, microbatches)) return write_out;
  if (auto done = write_out(); !done) return Fail(std::move(done.error()));
  return LaterStep();
}

// What becomes of the step's own checkpoints; decides `remat` where the caller leaves it open.
void TakeBarriers(Module& module, std::optional<Remat>& remat) {
  if (!remat) remat = HasBarriers(*module.entry()) ? Remat::kProgram : Remat::kStage;
  DropBarriers(module, remat == Remat::kProgram);
}

int64_t DevicesOf(const Module& module) {
  int64_t devices = module.DeviceCount();
  return devices > 1 ? devices : 1;
}

// Into how many parts annotations of parameters cut the batch.
int64_t ShardsOf(const Module& module, const BatchDims& batch,
                 const std::unordered_map<std::string, const Sharding*>& annotations) {
  int64_t shards = 1;
  for (auto [number, dim] : batch.dimension) {
    const Instruction* x = module.entry()->parameter(number);
    auto it = annotations.find(std::string(x->name()));
    if (it != annotations.end()) shards = std::lcm(shards, it->second->TileCount(dim));
  }
  return shards;
}

// "93:0:4,94:0:4": parameters with examples, the dim that counts them, and its shards.
std::string BatchText(const Module& module, const BatchDims& batch,
                      const std::unordered_map<std::string, const Sharding*>& annotations) {
  std::string text;
  for (auto [number, dim] : batch.dimension) {
    auto it = annotations.find(std::string(module.entry()->parameter(number)->name()));
    text += fmt::format("{}{}:{}:{}", text.empty() ? "" : ",", number, dim,
                        it == annotations.end() ? 1 : it->second->TileCount(dim));
  }
  return text;
}

// The mesh with the stage axis, and the schedule for those who read the program.
void Record(Module& module, const PipelinePlan& plan, const Mesh* mesh, const std::string& batch) {
  Mesh whole;
  if (mesh != nullptr) whole.name = mesh->name;
  whole.axes.push_back({plan.options.axis, plan.options.stages});
  if (mesh != nullptr) whole.axes.insert(whole.axes.end(), mesh->axes.begin(), mesh->axes.end());
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : whole.axes) sizes.push_back(axis.size);
  whole.devices = TileAssignment::Iota(sizes);
  const bool has_order =
      mesh != nullptr && !(mesh->devices == TileAssignment::Iota(mesh->devices.dims()));
  ModuleHeader& header = module.header();
  header.meshes.clear();
  if (!has_order && whole.device_count() == header.num_partitions) {
    if (whole.name.empty()) whole.name = "mesh";
    const Mesh* interned = module.context().Intern(std::move(whole));
    header.frontend_attributes =
        WithFrontendAttribute(module.arena(), header.frontend_attributes, kMeshesAttribute,
                              ToString(std::span<const Mesh* const>(&interned, 1)));
  }
  const Schedule& schedule = plan.schedule;
  const WorkSummary work = SummarizeWork(plan);
  auto list = [](const std::vector<double>& seconds) {
    std::string text;
    for (double s : seconds) text += fmt::format("{}{:.6g}", text.empty() ? "" : ",", s);
    return text;
  };
  std::string cuts;
  for (int64_t first : plan.first_layers) {
    const bool is_layer = first < static_cast<int64_t>(plan.layers.size());
    std::string name = is_layer ? plan.layers[static_cast<size_t>(first)].name : "end";
    for (char& c : name) c = c == ' ' || c == ',' || c == '"' || c == '\\' ? '_' : c;
    cuts += (cuts.empty() ? "" : ",") + name;
  }
  header.frontend_attributes = WithFrontendAttribute(
      module.arena(), header.frontend_attributes, kPipelineAttribute,
      fmt::format("stages={} repeats={} microbatches={} schedule={} bubble={:.6f} remat={} "
                  "recompute={:.6f} imbalance={:.6f} useful_flops={:.6g} executed_flops={:.6g} "
                  "forward_s={} recompute_s={} backward_s={} weights_s={} layers={} "
                  "first_layers={} cuts={} batch={} microbatch_sums={}",
                  schedule.stages, schedule.repeats, schedule.microbatches, NameOf(schedule.kind),
                  plan.simulation.bubble_fraction, NameOf(*plan.options.remat),
                  work.recompute_fraction, work.imbalance, work.useful_flops, work.executed_flops,
                  list(plan.times.forward), list(plan.times.recompute), list(plan.times.backward),
                  list(plan.times.weights), plan.layers.size(), fmt::join(plan.first_layers, ","),
                  cuts, batch, plan.microbatch_sums.size()));
}

// Copies in the module that make layers alike: of examples, and of constants.
struct AlikeLayers {
  std::unordered_set<const Instruction*> entering, own_constants;
};

// For the shifting buffer; nothing for other schedules.
Expected<AlikeLayers> MakeLayersAlike(Module& module, const BatchDims& batch,
                                      const Updates& updates, const PipelineOptions& options,
                                      const ManualRegions& regions) {
  AlikeLayers alike;
  if (options.schedule != ScheduleKind::kShift) return alike;
  if (options.copies_cotangents) {
    const Phases phases(module, batch);
    Expected<LayerGraph> layers = LayerGraph::Make(module, phases, updates, options, regions);
    if (!layers) return Fail(std::move(layers.error()));
    ComputeActivationsInEachLayer(module, phases, *layers);
  }
  auto copies = CopyEnteringExamples(module, batch, updates, options, regions);
  if (!copies) return Fail(std::move(copies.error()));
  alike.entering = std::move(*copies);
  for (bool again = true; again;) {
    const Phases phases(module, batch, alike.entering);
    Expected<LayerGraph> layers = LayerGraph::Make(module, phases, updates, options, regions);
    if (!layers) return Fail(std::move(layers.error()));
    again = NumberLayerSlices(module, phases, *layers);
    if (!again) alike.own_constants = SplitLayerConstants(module, phases, *layers);
  }
  return alike;
}

// Batch norm and its like: what M micro-batches compute is not what the whole batch does.
void FindMicrobatchSums(const Module& module, const Phases& phases, PipelinePlan& plan) {
  const Computation& entry = *module.entry();
  const SourceLines lines(module);
  std::vector<const Instruction*> own;
  std::vector<bool> follows(module.instruction_limit(), false);
  for (const Instruction* x : entry.instructions()) {
    const bool returns = x->opcode() == Opcode::kAllReduce && plan.options.microbatches > 1 &&
                         phases.PhaseOf(x) == Phase::kMicrobatch;
    follows[x->id()] = returns || std::ranges::any_of(x->operands(), [&](const Instruction* from) {
                         return follows[from->id()];
                       });
    if (!returns) continue;
    const Instruction* sum = x->operand(0);
    own.push_back(sum);
    plan.microbatch_sums.push_back({std::string(sum->name()), OpNameOf(*sum), lines.TextOf(*sum)});
  }
  for (const Instruction* x : OutputsOf(entry)) {
    plan.follows_microbatch_sum.push_back(follows[x->id()]);
  }
  if (own.empty()) return;
  const std::string others =
      own.size() == 1 ? "" : fmt::format(" and {} more like it are", own.size() - 1);
  Diagnostic warning = module.ErrorAt(
      own[0], "W-PIPELINE-001",
      fmt::format("'{}'{} over the examples of a micro-batch, not of the whole batch",
                  own[0]->name(), others.empty() ? " is" : others));
  warning.severity = Severity::kWarning;
  warning.hint = "results differ from the unpipelined step's, as batch norm's do in GPipe";
  plan.warnings.push_back(std::move(warning));
}

// Rows that are added up by their numbers, and taken by number by examples again, as edges of a
// graph do with nodes: what a micro-batch of edges adds up is no node. E-PIPELINE-003 at the sum.
Expected<void> CheckNumberedSums(const Module& module, const Phases& phases,
                                 const BatchDims& batch) {
  const auto is_summed = [&](const Instruction* x) {
    return x->opcode() == Opcode::kAllReduce && phases.PhaseOf(x) == Phase::kMicrobatch &&
           x->operand(0)->opcode() == Opcode::kScatter && x->shape()->rank() > 1;
  };
  std::unordered_map<const Instruction*, const Instruction*> sum;
  for (const Instruction* x : module.entry()->instructions()) {
    if (is_summed(x)) sum[x] = x->operand(0);
    for (const Instruction* operand : x->operands()) {
      if (sum.contains(operand)) sum.emplace(x, sum.at(operand));
    }
    const bool takes_rows = x->opcode() == Opcode::kGather && sum.contains(x->operand(0)) &&
                            phases.Varies(x->operand(1));
    if (!takes_rows) continue;
    Diagnostic error = module.ErrorAt(
        sum.at(x), "E-PIPELINE-003",
        fmt::format("'{}' adds up rows of all micro-batches by their numbers, and '{}' takes rows "
                    "of the sum in each, as edges of a graph do with its nodes",
                    sum.at(x)->name(), x->name()));
    error.hint = "give graphs a dim of their own, as jax.vmap over graphs does, and count these";
    if (batch.is_guessed) error.hint += ". " + GuessText(module, batch);
    return Fail(std::move(error));
  }
  return {};
}

// Layouts are those of the step; shardings of parameters stay, those of results are open.
void KeepSignature(Module& module, const ModuleHeader& step) {
  module.header().entry_parameter_layouts = step.entry_parameter_layouts;
  module.header().entry_result_layout = step.entry_result_layout;
  module.header().propagation_to_parameters = {false};
  module.header().propagation_to_output = {true};
}

// Times of the passes of each virtual stage, by the cost model.
PassTimes TimesOf(const PipelinePlan& plan, const StageGraph& stage_graph,
                  const LayerGraph& layers) {
  const size_t stages = plan.first_layers.size();
  const std::vector<double> zeros(stages, 0);
  PassTimes times{zeros, zeros, zeros, zeros};
  for (size_t v = 0; v < stages; ++v) {
    for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
      const Layer& layer = plan.layers[static_cast<size_t>(i)];
      const double again = ForwardsAgain(plan, v, i);
      times.forward[v] += layer.ForwardPassSeconds(again);
      times.backward[v] += layer.backward_s;
      const bool ahead = stage_graph.recomputes_ahead();
      (ahead ? times.recompute : times.backward)[v] += layer.AgainSeconds(again);
    }
    if (!stage_graph.splits_backward()) continue;
    const PassValues late(stage_graph, Pass::kWeights, static_cast<int64_t>(v));
    for (auto [x, layer] : late.Computed()) {
      if (layers.IsBackward(x)) times.weights[v] += layers.SecondsOf(x);
    }
    times.backward[v] -= times.weights[v];
  }
  return times;
}

// FLOPs of the passes, in place of times.
PassTimes FlopsOf(const StageGraph& stages) {
  auto of = [&](Pass pass, int64_t v) {
    double flops = 0;
    for (auto [x, layer] : PassValues(stages, pass, v).Computed()) {
      const OpCost cost = CostOf(*x);
      flops += cost.flops + cost.transcendentals;
    }
    return flops;
  };
  PassTimes flops;
  for (int64_t v = 0; v < stages.count(); ++v) {
    flops.forward.push_back(of(Pass::kForward, v));
    flops.backward.push_back(of(Pass::kBackward, v));
    flops.weights.push_back(of(Pass::kWeights, v));
    flops.recompute.push_back(of(Pass::kRecompute, v));
  }
  return flops;
}

// The schedule and when its passes run.
void MakeTimeline(PipelinePlan& plan, const StageGraph& stages, const LayerGraph& layers,
                  bool has_forward_of_last, const PassTimes* times) {
  ScheduleOptions schedule;
  schedule.kind = plan.options.schedule;
  schedule.stages = plan.options.stages;
  schedule.repeats = StagesOfDevice(plan.options);
  schedule.microbatches = plan.options.microbatches;
  schedule.has_forward_of_last = has_forward_of_last;
  schedule.has_backward = stages.has_backward();
  schedule.has_recompute = stages.recomputes_ahead();
  plan.times = times != nullptr ? *times : TimesOf(plan, stages, layers);
  schedule.times = plan.times;
  schedule.puts_off_weights = plan.options.remat == Remat::kNone && plan.options.puts_off_weights;
  plan.schedule = MakeSchedule(schedule);
  for (int64_t v = 0; v < stages.count(); ++v) {
    int64_t bytes = 0;
    for (const Instruction* x : stages.delayed(v)) bytes += x->shape()->byte_size();
    plan.delayed_bytes.push_back(bytes);
  }
  if (schedule.kind == ScheduleKind::kShift) {
    const ShiftClock clock{schedule.stages, schedule.repeats, schedule.microbatches};
    plan.simulation = SimulateShift(clock, plan.times, stages.has_backward());
  } else {
    plan.simulation = Simulate(plan.schedule, plan.times);
  }
}

// The error of too few equal layers for a shifting buffer's stages gets a place: the first of them,
// or the longest layer.
Diagnostic AtLayer(const Module& module, const LayerGraph& graph, const PipelineOptions& options,
                   Diagnostic error) {
  const std::vector<Layer>& layers = graph.layers();
  const bool are_few =
      std::ranges::count_if(layers, &Layer::is_repeated) < options.stages * StagesOfDevice(options);
  if (options.schedule != ScheduleKind::kShift || !are_few) return error;
  const auto equal = std::ranges::find_if(layers, &Layer::is_repeated);
  const auto layer =
      equal != layers.end() ? equal : std::ranges::max_element(layers, {}, &Layer::forward_s);
  for (const Instruction* x : module.entry()->instructions()) {
    if (graph.LayerOf(x) != layer - layers.begin() || x->source().empty()) continue;
    const std::string which = equal == layers.end()
                                  ? fmt::format("the longest of {} layers", layers.size())
                                  : fmt::format("the first of {} equal layers",
                                                std::ranges::count_if(layers, &Layer::is_repeated));
    Diagnostic located = module.ErrorAt(x, std::move(error.code),
                                        fmt::format("{}; {} begins here", error.message, which));
    located.hint = std::move(error.hint);
    return located;
  }
  return error;
}

bool HasForwardOfLast(const PipelineOptions& options) {
  return KeepsValues(*options.remat) && options.schedule != ScheduleKind::kShift;
}

// Each refers to those before it, and all to the module.
struct StagedStep {
  std::unique_ptr<const Phases> phases;
  std::unique_ptr<const LayerGraph> layers;
  std::unique_ptr<const StageGraph> stages;
};

Expected<StagedStep> MakeStages(const Module& module, const BatchDims& batch,
                                const Updates& updates, const ManualRegions& regions,
                                const AlikeLayers& alike, PipelinePlan& plan) {
  const PipelineOptions& options = plan.options;
  StagedStep step;
  step.phases = std::make_unique<const Phases>(module, batch, alike.entering);
  if (auto done = CheckNumberedSums(module, *step.phases, batch); !done) return Fail(done.error());
  Expected<LayerGraph> layers =
      LayerGraph::Make(module, *step.phases, updates, options, regions, alike.own_constants);
  if (!layers) return Fail(std::move(layers.error()));
  step.layers = std::make_unique<const LayerGraph>(*std::move(layers));
  plan.layers = step.layers->layers();
  Expected<std::vector<int64_t>> first =
      BalanceStages(plan.layers, options.stages * StagesOfDevice(options), options);
  if (!first) return Fail(AtLayer(module, *step.layers, options, std::move(first.error())));
  plan.first_layers = std::move(*first);
  step.stages = std::make_unique<const StageGraph>(
      module, *step.phases, *step.layers, plan.first_layers, HasForwardOfLast(options), options);
  return step;
}

// Fills in the plan's layers and stages.
Expected<StagedStep> StagesOf(Module& module, const BatchDims& batch, const Updates& updates,
                              const ManualRegions& regions, AlikeLayers& alike,
                              PipelinePlan& plan) {
  constexpr int kRounds = 3;  // what enters may be told only where what is known to enter is handed
  Expected<StagedStep> step = MakeStages(module, batch, updates, regions, alike, plan);
  for (int i = 0; i < kRounds && step && plan.options.copies_cotangents; ++i) {
    if (!CopyEnteringCotangents(module, *step->stages, alike.entering)) break;
    step = MakeStages(module, batch, updates, regions, alike, plan);
  }
  return step;
}

// A step whose batch is known, and whose loops over parts of it stay as they are.
Expected<PipelinePlan> PipelineStep(Module& module, const BatchDims& batch,
                                    const PipelineOptions& given, const PassTimes* times) {
  PipelinePlan plan;
  plan.options = given;
  const PipelineOptions& options = plan.options;
  plan.batch = batch.size;
  const int64_t devices = DevicesOf(module);
  if (Expected<void> ok = RefuseDeviceSubsets(module, devices); !ok) return Fail(ok.error());
  const Updates updates = FindUpdates(module);
  TakeBarriers(module, plan.options.remat);
  const auto write_out = WriteOutLoops(module, batch, options.microbatches, devices);
  if (!write_out) return Fail(write_out.error());
  const Expected<ManualRegions> regions = HideRegions(module, devices);
  if (!regions) return Fail(regions.error());
  const Mesh* mesh = NamedMesh(module);
  auto annotations = TakeAnnotations(module);
  const int64_t shards = ShardsOf(module, batch, annotations);
  const std::string batch_text = BatchText(module, batch, annotations);
  const ModuleHeader header = module.header();
  Expected<SplitProgram> split =
      SplitBatch(module, batch, options.microbatches, shards, *regions, *write_out);
  if (!split) return Fail(std::move(split.error()));
  if (auto done = CheckPartSums(module); !done) return Fail(std::move(done.error()));
  KeepSignature(module, header);
  TakeTuplesApart(module);
  regions->SeparateConstants(module);

  Expected<AlikeLayers> alike = MakeLayersAlike(module, batch, updates, options, *regions);
  if (!alike) return Fail(std::move(alike.error()));
  Expected<StagedStep> step = StagesOf(module, batch, updates, *regions, *alike, plan);
  if (!step) return Fail(std::move(step.error()));
  const Phases& phases = *step->phases;
  const LayerGraph& layers = *step->layers;
  const StageGraph& stages = *step->stages;
  FindMicrobatchSums(module, phases, plan);
  MakeTimeline(plan, stages, layers, HasForwardOfLast(options), times);
  plan.flops = FlopsOf(stages);

  ShardingOfInstruction annotation = AnnotationsOutside(module, annotations, layers.regions());
  const Expected<ShardingOfInstruction> unpipelined =
      PropagateUnpipelined(module, annotation, devices);
  if (!unpipelined) return Fail(unpipelined.error());
  AnnotateRegions(module, annotations, layers.regions(), annotation);
  RegionShardings shardings(module.context(), options.stages, devices);
  EmissionInputs emission;
  emission.module = &module;
  emission.options = &options;
  emission.batch = &batch;
  emission.split = &*split;
  emission.phases = &phases;
  emission.layers = &layers;
  emission.stages = &stages;
  emission.schedule = &plan.schedule;
  emission.shardings = &shardings;
  emission.annotation = [&](const Instruction* x) -> const Sharding* {
    auto it = annotation.find(x);
    return it == annotation.end() ? nullptr : it->second;
  };
  emission.unpipelined = &*unpipelined;
  emission.updates = &updates;
  Expected<Emission> emitted = EmitPipeline(emission);
  if (!emitted) return Fail(std::move(emitted.error()));
  plan.weights = emitted->weights;
  layers.regions().Restore(module, options.stages);
  RestackRows(module, {&shardings, &emitted->annotations, &emitted->unread});
  Record(module, plan, mesh, batch_text);
  return plan;
}

// The same where it has two passes over the batch, which are refused, or batches that are joined in
// one dim, whose rows get another order only where they have to.
Expected<PipelinePlan> PipelineBatches(Module& module, const BatchDims& batch,
                                       const PipelineOptions& options, const PassTimes* times) {
  std::unique_ptr<Module> ordered = module.Clone();
  Expected<PipelinePlan> plan = PipelineStep(module, batch, options, times);
  if (!plan && plan.error().code == "E-PIPELINE-006" && !options.copies_cotangents) {
    PipelineOptions with = options;
    with.copies_cotangents = true;
    std::unique_ptr<Module> copied = ordered->Clone();
    if (auto other = PipelineStep(*copied, batch, with, times)) {
      module = std::move(*copied);
      plan = std::move(other);
    }
  }
  if (plan && (options.microbatches == 1 || plan->microbatch_sums.empty())) return plan;
  if (auto second = FindSecondPass(*ordered, batch)) return Fail(*std::move(second));
  if (plan || plan.error().code != "E-PIPELINE-003") return plan;
  const int64_t microbatches = std::max<int64_t>(options.microbatches, 2);  // see MarkSums
  const Expected<bool> has_order = OrderJoinedBatches(*ordered, batch, microbatches);
  if (!has_order) {
    const bool is_reason = JoinsBatchesAt(*ordered, batch, plan.error());
    return Fail(is_reason ? has_order.error() : plan.error());
  }
  if (!*has_order) return plan;
  BatchDims in_order = batch;
  in_order.has_joined_order = true;
  plan = PipelineStep(*ordered, in_order, options, times);
  if (plan) module = std::move(*ordered);
  return plan;
}

// Takes out custom calls that are there for their effect alone and give no result, as
// jax.debug.print makes: the step does not hang on them, and who would do them, when, is not known.
// Returns W-PIPELINE-002 at the first; nothing: there is none.
std::optional<Diagnostic> DropCallsWithoutResult(Module& module) {
  std::vector<Instruction*> calls;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      const bool is_call = x->opcode() == Opcode::kCustomCall && HasSideEffect(*x);
      if (!is_call || !x->shape()->IsTuple() || !x->shape()->elements().empty()) continue;
      if (x != computation->root()) calls.push_back(x);
    }
  }
  if (calls.empty()) return std::nullopt;
  const std::string others =
      calls.size() == 1 ? "" : fmt::format(" and {} more like it", calls.size() - 1);
  Diagnostic warning = module.ErrorAt(
      calls[0], "W-PIPELINE-002",
      fmt::format("'{}'{} (custom-call to '{}') left out: a call without results, as of "
                  "jax.debug.print",
                  calls[0]->name(), others, calls[0]->attributes<CustomCallAttributes>().target));
  warning.severity = Severity::kWarning;
  for (Instruction* x : calls)
    x->mutable_attributes<CustomCallAttributes>().has_side_effect = false;
  RemoveDeadCode(module);
  return warning;
}

// Of a step whose calls have results.
Expected<PipelinePlan> PipelineParts(Module& module, const PipelineOptions& options,
                                     const PassTimes* times) {
  const Expected<BatchDims> batch = FindBatch(module, options);
  if (!batch) return Fail(batch.error());
  std::optional<Diagnostic> refused;
  std::unique_ptr<Module> merged;
  if (const std::unique_ptr<Module> rolled = RollUnrolledParts(module, *batch)) {
    merged = MergeAccumulatedParts(*rolled, *batch, refused);
  }
  if (merged == nullptr) merged = MergeAccumulatedParts(module, *batch, refused);
  if (merged == nullptr) {
    Expected<PipelinePlan> plan = PipelineBatches(module, *batch, options, times);
    if (!plan && refused) return Fail(*std::move(refused));
    return plan;
  }
  Expected<PipelinePlan> plan = PipelineBatches(*merged, *batch, options, times);
  if (plan) {
    module = std::move(*merged);
    return plan;
  }
  Expected<PipelinePlan> in_parts = PipelineBatches(module, *batch, options, times);
  return in_parts ? std::move(in_parts) : std::move(plan);
}

}  // namespace

Expected<PipelinePlan> PipelineModule(Module& module, const PipelineOptions& options,
                                      const PassTimes* times) {
  TakeResultApart(module);
  const Instruction* root = module.entry()->root();
  const auto is_tuple = [](const Shape* element) { return element->IsTuple(); };
  if (root->shape()->IsTuple() && std::ranges::any_of(root->shape()->elements(), is_tuple)) {
    Diagnostic error = module.ErrorAt(root, "E-PIPELINE-011",
                                      "pipelines do not take results that are tuples within the "
                                      "tuple of results");
    error.hint = "return their elements";
    return Fail(std::move(error));
  }
  std::optional<Diagnostic> left_out = DropCallsWithoutResult(module);
  SeparateScatterTerms(module);
  Expected<PipelinePlan> plan = PipelineParts(module, options, times);
  if (plan && left_out) plan->warnings.push_back(*std::move(left_out));
  return plan;
}

}  // namespace gshard::pipeline
