#include "cmd/cli/pipeline.h"

#include "cmd/cli/estimate.h"
#include "cmd/cli/program.h"
#include "core/pipeline/best_schedule.h"
#include "core/pipeline/pipeline.h"
#include "core/pipeline/report.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/annotations/annotate.h"
#include "fmt/format.h"

namespace gshard {

namespace {
constexpr std::string_view kBest = "best";  // of the schedules
}

Expected<pipeline::PipelineOptions> ReadPipelineFlags(const PipelineFlags& flags) {
  pipeline::PipelineOptions options;
  options.stages = flags.stages;
  options.microbatches = flags.microbatches;
  options.repeats = flags.repeats;
  if (auto axis = ParseMeshFlag(flags.axis + "=1"); !axis || axis->size() != 1) {
    throw FlagError("--axis", fmt::format("'{}' cannot be an axis name", flags.axis));
  }
  options.axis = flags.axis;
  options.cut = flags.cut;
  options.balance = flags.balance;
  auto schedule = pipeline::ParseSchedule(flags.schedule == kBest ? "1f1b" : flags.schedule);
  if (!schedule) {
    schedule.error().hint += fmt::format(", {}", kBest);
    return Fail(std::move(schedule.error()));
  }
  options.schedule = *schedule;
  if (!flags.remat.empty()) {
    auto remat = pipeline::ParseRemat(flags.remat);
    if (!remat) return Fail(std::move(remat.error()));
    options.remat = *remat;
  }
  auto weights = pipeline::ParseWeights(flags.weights);
  if (!weights) return Fail(std::move(weights.error()));
  options.weights = *weights;
  Expected<Chip> chip =
      flags.chip_file.empty() ? BuiltInChip(flags.chip) : ReadChipFile(flags.chip_file);
  if (!chip) return Fail(std::move(chip.error()));
  options.chip = std::move(*chip);
  if (!flags.limit.empty()) options.memory_limit_bytes = MemoryLimitOf("--limit", flags.limit);
  for (const std::string& text : flags.batch) {
    auto rule = pipeline::ParseBatchRule(text);
    if (!rule) return Fail(std::move(rule.error()));
    options.batch.push_back(std::move(*rule));
  }
  return options;
}

void AddPipelineFlags(const Command& command, PipelineFlags& flags) {
  command.Add("--stages", flags.stages, "Stages, one device of the axis each (required)",
              {.type = "K", .required = true, .between = {{1, 65536}}});
  command.Add("--microbatches", flags.microbatches,
              "Micro-batches a step; they divide the batch (required)",
              {.type = "M", .required = true, .between = {{1, 1048576}}});
  command.Add("--schedule", flags.schedule,
              "gpipe, 1f1b, interleaved, zero-bubble, shift, or best: the cheapest that fits in "
              "memory (default: 1f1b)",
              {.type = "SCHEDULE"});
  AddBatchFlag(command, flags);
  AddStageFlags(command, flags);
  command.Add("--chip", flags.chip,
              "Chip whose times and links layers are balanced by (default: tpu-v3)",
              {.type = "NAME"});
  command.Suggest("--chip", BuiltInChipNames());
  command.Add("--chip-file", flags.chip_file,
              "Chip description in JSON, as docs/chips.md tells it (default: --chip)",
              {.type = "FILE"});
  command.Add("--limit", flags.limit,
              "Memory of a device, such as 16GiB, that stages of --balance cost fit in (default: "
              "no limit)",
              {.type = "SIZE"});
  command.Add("--report", flags.report,
              "Layers, stages and schedule, as text or, for FILE.json, as JSON; - is standard "
              "error (default: no report)",
              {.type = "FILE", .is_output = true, .dash_is_stderr = true});
}

void AddStageFlags(const Command& command, PipelineFlags& flags) {
  command.Add("--repeats", flags.repeats,
              "Chunks of layers a device has: of interleaved (default: 2), or of shift, which is "
              "circular then (default: 1)",
              {.type = "R", .between = {{1, 1024}}});
  command.Add("--axis", flags.axis, "Name of the mesh axis (default: stage)", {.type = "AXIS"});
  command.Add("--cut", flags.cut,
              "A layer starts where op_name or name begins to match, or matches otherwise, "
              "layer_[0-9]+ (default: layers are found)",
              {.type = "REGEX"});
  command.Add("--balance", flags.balance,
              "cost, layers, gpipe, or the first layer of each stage, 0,5,11 (default: cost)",
              {.type = "BALANCE"});
  command.Add("--remat", flags.remat,
              "What the backward pass computes again: stage, none, all, or program, what the step "
              "itself does (default: program where that has checkpoints, else stage)",
              {.type = "REMAT"});
  command.Add("--weights", flags.weights,
              "sharded over the stages or replicated (default: sharded)", {.type = "WEIGHTS"});
}

void AddBatchFlag(const Command& command, PipelineFlags& flags, bool sweeps) {
  const char* const rule =
      "The dim of a parameter that counts examples, tokens=0; may be given many times "
      "(default: dim 0 of those neither updated nor scalar)";
  const char* const sizes_or_rule =
      "Examples of a step, as if IN were printed for so many: a list, or 64..512 for the powers of "
      "two (default: IN's). Or the dim of a parameter that counts them, tokens=0; may be given "
      "many times (default: dim 0 of those neither updated nor scalar)";
  command.Add("--batch", flags.batch, sweeps ? sizes_or_rule : rule,
              {.type = sweeps ? "LIST|REGEX=DIM" : "REGEX=DIM"});
}

namespace {

Expected<pipeline::BestPipeline> Pipelined(const Module& module,
                                           const pipeline::PipelineOptions& options,
                                           const PipelineFlags& flags) {
  using pipeline::ScheduleKind;
  static constexpr ScheduleKind kAll[] = {ScheduleKind::k1F1B, ScheduleKind::kGPipe,
                                          ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble,
                                          ScheduleKind::kShift};
  if (flags.schedule == kBest) return pipeline::PipelineByBest(module, options, kAll);
  return pipeline::PipelineBySchedule(module, options);
}

}  // namespace

// Throws FlagError for flags that say nothing of the schedule or the balance that is asked for.
void CheckPipelineFlags(const PipelineFlags& flags) {
  const bool has_chunks =
      flags.schedule == "interleaved" || flags.schedule == "shift" || flags.schedule == kBest;
  if (flags.repeats > 0 && !has_chunks) {
    throw FlagError("--repeats", fmt::format("a device of '{}' has one chunk; --schedule "
                                             "interleaved and shift have several",
                                             flags.schedule));
  }
  if (!flags.limit.empty() && flags.balance != "cost" && flags.schedule != kBest) {
    throw FlagError("--limit", "it goes with --balance cost, which cuts by memory, too");
  }
}

int RunPipeline(SessionOptions& session, PassContext& context, const PipelineFlags& flags) {
  CheckPipelineFlags(flags);
  Expected<pipeline::PipelineOptions> options = ReadPipelineFlags(flags);
  if (!options) return UsageError(options.error());
  bool over_limit = false;
  const int status = RunReplacingSession(
      session, context,
      [&](std::unique_ptr<Module>& module, PassContext& passes, const PassManagerOptions& manager,
          std::vector<PassTiming>& timings) -> Expected<void> {
        PerDeviceOptions way;  // up to inlined calls
        way.propagate = false;
        way.passes = manager;
        way.timings = &timings;
        if (auto done = CompleteShardings(*module, passes, way); !done) {
          return Fail(std::move(done.error()));
        }
        Expected<pipeline::BestPipeline> made = Pipelined(*module, *options, flags);
        if (!made) {
          over_limit = made.error().code == "E-PIPELINE-007";
          return Fail(std::move(made.error()));
        }
        module = std::move(made->program);
        pipeline::PipelinePlan& plan = made->plan;
        passes.diagnostics.insert(passes.diagnostics.end(), plan.warnings.begin(),
                                  plan.warnings.end());
        const bool has_report = !flags.report.empty();
        if (flags.schedule == kBest && (!has_report || flags.report.ends_with(".json"))) {
          auto shown = WriteFile("-", pipeline::TriedText(made->tried), /*dash_is_stderr=*/true);
          if (!shown) return shown;
        }
        if (!has_report) return {};
        if (!plan.emitted) {
          auto cost = pipeline::CostOfEmitted(*module, options->stages, options->chip);
          if (!cost) return Fail(std::move(cost.error()));
          plan.emitted = *std::move(cost);
        }
        const bool json = flags.report.ends_with(".json");
        std::string text = json ? pipeline::PlanJson(plan, made->tried) : pipeline::PlanText(plan);
        if (!json && !made->tried.empty()) text += "\n" + pipeline::TriedText(made->tried);
        return WriteFile(flags.report, text, /*dash_is_stderr=*/true);
      });
  return over_limit ? kExitCheckFailed : status;
}

}  // namespace gshard
