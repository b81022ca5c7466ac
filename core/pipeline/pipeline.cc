#include "core/pipeline/pipeline.h"

#include <unordered_map>

#include "core/analysis/meshes.h"
#include "core/pipeline/balance.h"
#include "core/pipeline/batch.h"
#include "core/pipeline/emission.h"
#include "core/pipeline/layer_loops.h"
#include "core/pipeline/phases.h"
#include "core/pipeline/stages.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"
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

// The pipeliner rematerialises by stage; barriers of the user's own would keep equal recomputations
// apart, and tie values of several layers together.
void DropBarriers(Module& module) {
  RewriteModule(module, [](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (x->opcode() == Opcode::kOptBarrier) return x->operand(0);
    // A constraint is an annotation like any other: a copy holds it.
    if (IsCustomCallTo(*x, kShardingTarget) && x->operand_count() == 1) {
      return rewriter.builder().Add(Opcode::kCopy, {x->operand(0)}, x->shape(), x->name());
    }
    if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
      return x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
    }
    return x;
  });
}

int64_t DevicesOf(const Module& module) {
  int64_t devices = module.DeviceCount();
  return devices > 1 ? devices : 1;
}

// Each shard of the batch has micro-batches of its own: M divides its rows.
Expected<void> CheckShards(const Module& module, const BatchDims& batch,
                           const std::unordered_map<std::string, const Sharding*>& annotations,
                           int64_t microbatches) {
  for (auto [number, dim] : batch.dimension) {
    const Instruction* x = module.entry()->parameter(number);
    auto it = annotations.find(std::string(x->name()));
    int64_t shards = it == annotations.end() ? 1 : it->second->TileCount(dim);
    if (x->shape()->dim(dim) % (shards * microbatches) == 0) continue;
    return Fail(module.ErrorAt(
        x, "E-PIPELINE-001",
        fmt::format("{} micro-batches on {} shards do not divide the {} examples of '{}'",
                    microbatches, shards, x->shape()->dim(dim), x->name())));
  }
  return {};
}

// The mesh with the stage axis, and the schedule for those who read the program.
void Record(Module& module, const PipelinePlan& plan, const Mesh* mesh) {
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
  header.frontend_attributes = WithFrontendAttribute(
      module.arena(), header.frontend_attributes, kPipelineAttribute,
      fmt::format("stages={} repeats={} microbatches={} schedule={} bubble={:.6f}", schedule.stages,
                  schedule.repeats, schedule.microbatches, NameOf(schedule.kind),
                  plan.simulation.bubble_fraction));
}

// Times of the passes of each virtual stage, by the cost model.
PassTimes TimesOf(const PipelinePlan& plan, bool splits_backward) {
  const size_t stages = plan.first_layers.size();
  PassTimes times{std::vector<double>(stages, 0), std::vector<double>(stages, 0),
                  std::vector<double>(stages, 0)};
  const bool remat = plan.options.remat != Remat::kNone;
  for (size_t v = 0; v < stages; ++v) {
    size_t end =
        v + 1 < stages ? static_cast<size_t>(plan.first_layers[v + 1]) : plan.layers.size();
    for (size_t i = static_cast<size_t>(plan.first_layers[v]); i < end; ++i) {
      const Layer& layer = plan.layers[i];
      times.forward[v] += layer.forward_s;
      times.backward[v] += layer.backward_s * (splits_backward ? 0.5 : 1);
      times.weights[v] += splits_backward ? layer.backward_s * 0.5 : 0;
      if (remat) times.backward[v] += layer.forward_s;
    }
  }
  return times;
}

}  // namespace

Expected<PipelinePlan> PipelineModule(Module& module, const PipelineOptions& options) {
  PipelinePlan plan;
  plan.options = options;
  auto warn = [&](std::string message) {
    Diagnostic warning = MakeError("W-PIPELINE-001", std::move(message));
    warning.severity = Severity::kWarning;
    plan.warnings.push_back(std::move(warning));
  };
  if (options.schedule == ScheduleKind::kShift) {
    warn("--schedule shift has the order of gpipe: devices branch, they do not compute on padding");
  }
  if (options.remat == Remat::kAll) warn("--remat all computes again what --remat stage does");
  Expected<BatchDims> batch = FindBatch(module, options);
  if (!batch) return Fail(std::move(batch.error()));
  plan.batch = batch->size;
  const int64_t devices = DevicesOf(module);
  const Updates updates = FindUpdates(module);
  if (auto written = WriteOutLayerLoops(module, batch->parameters()); !written) {
    return Fail(std::move(written.error()));
  }
  DropBarriers(module);
  const Mesh* mesh = NamedMesh(module);
  auto annotations = TakeAnnotations(module);
  if (auto fits = CheckShards(module, *batch, annotations, options.microbatches); !fits) {
    return Fail(std::move(fits.error()));
  }
  const ModuleHeader header = module.header();
  Expected<SplitProgram> split = SplitBatch(module, *batch, options.microbatches);
  if (!split) return Fail(std::move(split.error()));
  module.header().entry_parameter_layouts = header.entry_parameter_layouts;
  module.header().entry_result_layout = header.entry_result_layout;
  module.header().propagation_to_parameters = {false};
  module.header().propagation_to_output = {true};

  Phases phases(module, *batch);
  Expected<LayerGraph> layers = LayerGraph::Make(module, phases, updates, options);
  if (!layers) return Fail(std::move(layers.error()));
  plan.layers = layers->layers();
  const int64_t repeats = StagesOfDevice(options);
  Expected<std::vector<int64_t>> first =
      BalanceStages(plan.layers, options.stages * repeats, options);
  if (!first) return Fail(std::move(first.error()));
  plan.first_layers = std::move(*first);

  const bool has_forward_of_last = options.remat == Remat::kNone;
  StageGraph stages(module, phases, *layers, plan.first_layers, has_forward_of_last, options);
  ScheduleOptions schedule;
  schedule.kind = options.schedule;
  schedule.stages = options.stages;
  schedule.repeats = repeats;
  schedule.microbatches = options.microbatches;
  schedule.has_forward_of_last = has_forward_of_last;
  schedule.has_backward = stages.has_backward();
  plan.schedule = MakeSchedule(schedule);
  plan.simulation = Simulate(plan.schedule, TimesOf(plan, stages.splits_backward()));

  std::unordered_map<const Instruction*, const Sharding*> annotation;
  for (const Instruction* x : module.entry()->instructions()) {
    auto it = annotations.find(std::string(x->name()));
    if (it != annotations.end()) annotation[x] = it->second;
  }
  RegionShardings shardings(module.context(), options.stages, devices);
  EmissionInputs emission;
  emission.module = &module;
  emission.options = &options;
  emission.batch = &*batch;
  emission.split = &*split;
  emission.phases = &phases;
  emission.layers = &*layers;
  emission.stages = &stages;
  emission.schedule = &plan.schedule;
  emission.shardings = &shardings;
  emission.annotation = [&](const Instruction* x) -> const Sharding* {
    auto it = annotation.find(x);
    return it == annotation.end() ? nullptr : it->second;
  };
  EmitPipeline(emission);
  Record(module, plan, mesh);
  return plan;
}

}  // namespace gshard::pipeline
