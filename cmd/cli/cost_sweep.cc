// See cost_sweep.h.

#include "cmd/cli/cost_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/plan/batch.h"
#include "core/report/cost_page.h"
#include "core/report/mesh_sweep.h"
#include "core/resize/resize_batch.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/annotations/remesh.h"
#include "core/transforms/inline_calls.h"
#include "ir/input/module_input.h"
#include "ir/source_text.h"

namespace gshard {
namespace {

constexpr const char* kSweepSchema = "gshard.sweep/1";

Expected<std::vector<AnnotationRule>> ReadRules(const CostSweepFlags& flags) {
  std::vector<AnnotationRule> rules;
  if (!flags.rules_file.empty()) {
    Expected<std::string> text = ReadFile(flags.rules_file);
    if (!text) return Fail(std::move(text.error()));
    auto parsed = ParseRulesFile(*text, flags.rules_file);
    if (!parsed) return parsed;
    rules = std::move(*parsed);
  }
  for (const std::string& shard : flags.shards) {
    Expected<AnnotationRule> rule = ParseAnnotationRule(shard, "--shard");
    if (!rule) throw FlagError("--shard", rule.error());
    rules.push_back(std::move(*rule));
  }
  return rules;
}

// The shapes with the axes that --mesh does not name, which keep the module's sizes.
Expected<std::vector<MeshShape>> ShapesFor(Module& module, const CostSweepFlags& flags) {
  if (IsPartitioned(module)) {
    return Fail(MakeError("E-MESH-004", "this is the program of one device already",
                          "sweep the text that was partitioned"));
  }
  auto annotated = FindAnnotatedMesh(module);
  if (!annotated) return Fail(std::move(annotated.error()));
  if (flags.mesh.empty()) return std::vector<MeshShape>{annotated->axes};
  auto shapes = ParseMeshShapes(flags.mesh);
  if (!shapes) throw FlagError("--mesh", shapes.error());
  for (MeshShape& shape : *shapes) {
    auto renamed = MeshAfterRenaming(annotated->axes, shape);
    if (!renamed) return Fail(std::move(renamed.error()));
    shape = std::move(*renamed);
  }
  return shapes;
}

std::vector<int64_t> SizesOf(const char* flag, const std::string& text) {
  auto sizes = ParseSizes(text);
  if (!sizes) throw FlagError(flag, sizes.error());
  return *sizes;
}

// What --batch gives: sizes of the batch, or else rules, which have an equals sign.
bool IsBatchRule(const std::string& text) { return text.find('=') != text.npos; }

// Empty: the batch is not swept.
std::vector<int64_t> BatchSizesOf(const CostSweepFlags& flags) {
  std::vector<int64_t> sizes;
  for (const std::string& text : flags.pipeline.batch) {
    if (IsBatchRule(text)) continue;
    const std::vector<int64_t> more = SizesOf("--batch", text);
    sizes.insert(sizes.end(), more.begin(), more.end());
  }
  return sizes;
}

PipelineFlags WithoutSizes(PipelineFlags flags) {
  std::erase_if(flags.batch, [](const std::string& text) { return !IsBatchRule(text); });
  return flags;
}

// Of which parameters which dims count examples, as `gshard-opt pipeline` finds them. `guess`: a
// hint on what was taken for examples; empty where a rule says so.
Expected<BatchSize> FindExamples(const Module& module, const CostSweepFlags& flags,
                                 std::string& guess) {
  auto options = ReadPipelineFlags(WithoutSizes(flags.pipeline));
  if (!options) return Fail(std::move(options.error()));
  options->microbatches = 1;
  const std::unique_ptr<Module> flat = module.Clone();
  if (auto small = CheckInlinedSize(*flat); !small) return Fail(std::move(small.error()));
  PassContext context;
  PerDeviceOptions way;  // up to inlined calls
  way.propagate = false;
  if (auto done = CompleteShardings(*flat, context, way); !done) {
    return Fail(std::move(done.error()));
  }
  auto found = pipeline::FindBatch(*flat, *options);
  if (!found) return Fail(std::move(found.error()));
  if (found->is_guessed) guess = pipeline::GuessText(*flat, *found);
  return BatchSize{
      .dimension = std::move(found->dimension), .from = found->size, .to = found->size};
}

// One that does not run in stages, or all that the flags ask for.
std::vector<SweepPipeline> PipelinesFor(const CostSweepFlags& flags) {
  if (flags.stages.empty()) {
    const bool has_sizes = !BatchSizesOf(flags).empty();
    if (flags.mesh.empty() && !has_sizes) {
      throw FlagError("--mesh", "is required, or --stages, or sizes of --batch");
    }
    return {{}};
  }
  if (flags.microbatches.empty()) throw FlagError("--microbatches", "is required with --stages");
  const std::vector<int64_t> microbatches = SizesOf("--microbatches", flags.microbatches);
  std::vector<SweepPipeline> pipelines;
  for (const int64_t stages : SizesOf("--stages", flags.stages)) {
    for (const int64_t count : microbatches) {
      std::string_view rest = flags.schedules;
      while (!rest.empty()) {
        const std::string_view name = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(name.size() + 1, rest.size()));
        auto kind = pipeline::ParseSchedule(name);
        if (!kind) throw FlagError("--schedule", fmt::format("'{}': {}", name, kind.error().hint));
        pipelines.push_back({stages, count, std::string(name)});
      }
    }
  }
  if (pipelines.empty()) throw FlagError("--schedule", "names no schedule");
  return pipelines;
}

// Meshes times pipelines times batches, of so many devices.
std::vector<SweepPoint> PointsFor(const std::vector<MeshShape>& shapes,
                                  const std::vector<SweepPipeline>& pipelines,
                                  const std::vector<int64_t>& batches,
                                  const CostSweepFlags& flags) {
  std::vector<SweepPoint> points =
      PointsOf(shapes, pipelines, batches.empty() ? std::vector<int64_t>{0} : batches);
  std::erase_if(points, [&](const SweepPoint& point) {
    return flags.devices > 0 && DevicesOf(point) != flags.devices;
  });
  if (points.empty()) {
    throw FlagError("--devices",
                    fmt::format("'{}' has no mesh of {} devices", flags.mesh, flags.devices));
  }
  return points;
}

// As `gshard-opt pipeline` does.
Expected<void> RunInStages(Module& module, const SweepPipeline& stages, const CostSweepFlags& flags,
                           const Chip& chip) {
  PipelineFlags with = WithoutSizes(flags.pipeline);
  with.stages = stages.stages;
  with.microbatches = stages.microbatches;
  with.schedule = stages.schedule;
  auto options = ReadPipelineFlags(with);
  if (!options) return Fail(std::move(options.error()));
  options->chip = chip;
  if (auto small = CheckInlinedSize(module, 1'000'000); !small) return small;
  if (auto inlined = InlineCalls(module); !inlined) return Fail(std::move(inlined.error()));
  auto plan = pipeline::PipelineModule(module, *options);
  if (!plan) return Fail(std::move(plan.error()));
  return {};
}

// What all points have.
struct SweepInput {
  const CostSweepFlags& flags;
  std::shared_ptr<const SourceText> source;
  std::vector<AnnotationRule> rules;
  Chip chip;
  BatchSize examples;  // if batches are swept
  std::string guess;   // a hint on what was taken for examples (FindExamples)
  int64_t limit = 0;
};

// Of the module over the point's mesh.
Expected<void> EstimateAt(SweepPoint& point, const SweepInput& input) {
  const CostSweepFlags& flags = input.flags;
  auto module = ReadModuleInput(input.source, CommandInputOptions());  // verified once before
  if (!module) return Fail(std::move(module.error()));
  if (point.batch > 0) {
    BatchSize size = input.examples;
    size.to = point.batch;
    if (auto done = ResizeBatch(**module, size); !done) {
      if (done.error().hint.empty()) done.error().hint = input.guess;
      return done;
    }
  }
  const bool keeps_mesh = flags.mesh.empty() && input.rules.empty();
  if (!keeps_mesh) {
    if (auto done = Remesh(**module, point.mesh, input.rules); !done) return done;
  }
  for (const Instruction* x : UnevenArrays(**module)) point.uneven.emplace_back(x->name());
  if (point.pipeline.stages > 0) {
    if (auto done = RunInStages(**module, point.pipeline, flags, input.chip); !done) return done;
  }
  auto program = MakeDeviceProgram(std::move(*module), ProgramOptionsFor(flags.estimate));
  if (!program) return Fail(std::move(program.error()));
  const CostOptions options = CostOptionsFor(flags.estimate);
  const auto figures = PriceProgram(*std::move(program), input.chip, options);
  if (!figures) return Fail(figures.error());
  point.step_time_s = figures->step_time_s;
  point.compute_time_s = figures->compute_time_s;
  point.exposed_communication_s = figures->exposed_communication_s;
  point.mfu = figures->mfu;
  point.bubble_share = figures->bubble_share;
  point.peak_bytes = figures->peak_bytes;
  point.fits = point.peak_bytes <= input.limit;
  return {};
}

int RunCostSweep(const CostSweepFlags& flags) {
  auto refuse = [&](const Diagnostic& error) {
    return ReportEstimateError(error, flags.json, kSweepSchema);
  };
  MeshSweep sweep;
  const std::vector<SweepPipeline> pipelines = PipelinesFor(flags);
  const std::vector<int64_t> batches = BatchSizesOf(flags);
  if (auto options = ReadPipelineFlags(WithoutSizes(flags.pipeline)); !options) {
    return UsageError(options.error());
  }
  Expected<Chip> chip = ReadChip(flags.estimate.chip);
  if (!chip) return refuse(chip.error());
  sweep.chip = chip->name;
  sweep.memory_limit_bytes = flags.limit.empty() ? static_cast<int64_t>(chip->hbm_bytes)
                                                 : MemoryLimitOf("--limit", flags.limit);
  Expected<std::vector<AnnotationRule>> rules = ReadRules(flags);
  if (!rules) return refuse(rules.error());
  SweepInput input{.flags = flags,
                   .source = nullptr,
                   .rules = std::move(*rules),
                   .chip = std::move(*chip),
                   .examples = {},
                   .guess = {},
                   .limit = sweep.memory_limit_bytes};
  auto source = SourceText::Open(flags.input);
  if (!source) return refuse(source.error());
  input.source = *source;
  auto module = ReadModule(*source);
  if (!module) return refuse(module.error());
  sweep.module = (*module)->name();
  auto shapes = ShapesFor(**module, flags);
  if (!shapes) return refuse(shapes.error());
  std::vector<SweepPoint> points = PointsFor(*shapes, pipelines, batches, flags);
  if (!batches.empty()) {
    auto examples = FindExamples(**module, flags, input.guess);
    if (!examples) return refuse(examples.error());
    input.examples = std::move(*examples);
  }
  sweep.points = SweepPoints(
      std::move(points),
      [&](SweepPoint& point) {
        if (auto done = EstimateAt(point, input); !done) point.error = std::move(done.error());
      },
      flags.threads);
  const bool none = std::all_of(sweep.points.begin(), sweep.points.end(),
                                [](const SweepPoint& point) { return point.error.has_value(); });
  if (none) return refuse(*sweep.points.front().error);
  if (!flags.html.empty()) {
    auto page = WriteFile(flags.html, MeshSweepPage(sweep));
    if (!page) return ReportError(page.error());
  }
  auto written = WriteFile(
      flags.output, flags.json ? MeshSweepAsJson(sweep) : MeshSweepAsText(sweep, flags.markdown));
  return written ? kExitOk : ReportError(written.error());
}

void AddFlags(const Command& command, CostSweepFlags& flags) {
  command.Add("IN", flags.input,
              "HLO or StableHLO text, sharded or not; - is standard input (required)",
              {.type = "FILE", .required = true});
  AddReadFlags(command);
  command.Add("--mesh", flags.mesh,
              "Sizes of each axis, major first; 2..64 means the powers of two. Axes of IN's mesh "
              "take them by name, if none is named in order; others keep theirs (required without "
              "--stages and sizes of --batch; default: IN's)",
              {.type = "AXES"});
  command.Add("--stages", flags.stages,
              "Run in so many stages, as gshard-opt pipeline does: a list, or 1..8 for the powers "
              "of two (default: no stages)",
              {.type = "LIST"});
  command.AddOnlyWith({"--stages"}, [&] {
    command.Add("--microbatches", flags.microbatches,
                "Micro-batches a step, with --stages: 8, 4,12 or 1..32 (required with --stages)",
                {.type = "LIST"});
    command.Add("--schedule", flags.schedules,
                "Some of gpipe, 1f1b, interleaved, zero-bubble, shift, such as gpipe,1f1b "
                "(default: 1f1b)",
                {.type = "LIST"});
    AddStageFlags(command, flags.pipeline);
  });
  AddBatchFlag(command, flags.pipeline, /*sweeps=*/true);
  command.Add("--devices", flags.devices, "Only meshes of so many devices (default: all)",
              {.type = "N", .between = {{1, 1 << 20}}});
  command.Add("--rules", flags.rules_file,
              "File of REGEX=SPEC, one a line, as gshard-opt annotate takes it (default: none)",
              {.type = "FILE"});
  command.Add("--shard", flags.shards,
              "One such rule, after those of the file (may be repeated; default: none)",
              {.type = "REGEX=SPEC"});
  command.Add("-o,--output", flags.output, "Where the table goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  command.Add("--limit", flags.limit,
              "Memory per device, such as 16GiB, that points fit in or not (default: the chip's)",
              {.type = "SIZE"});
  command.Add("--threads", flags.threads, "Threads (default: one a core)",
              {.type = "N", .between = {{1, 1024}}});
  AddPropagationFlags(command, flags.estimate.propagation);
  AddPricingFlags(command, flags.estimate);
  command.Add("--html", flags.html, "Write a plot and the table as a page (default: none)",
              {.type = "FILE", .is_output = true});
  command.AddSwitch("--json", flags.json, "JSON (gshard.sweep/1) instead of text");
  command.AddSwitch("--markdown", flags.markdown, "A markdown table", {"--json"});
}

}  // namespace

void AddCostSweep(CommandLine& line, CostSweepFlags& flags) {
  line.AddSubcommand(
      "sweep", "Time and memory over many mesh shapes, pipelines and batches",
      "gshard-cost sweep step.hlo --mesh data=2..64,model=2..32 --devices 64 --chip tpu-v4",
      [&flags] { return RunCostSweep(flags); },
      [&flags](const Command& command) { AddFlags(command, flags); });
}

}  // namespace gshard
