// See auto.h.

#include "cmd/cli/auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "cmd/cli/program.h"
#include "core/analysis/attention/attention_kernels.h"
#include "core/autoshard/auto_sharding.h"
#include "core/autoshard/prepared_program.h"
#include "core/autoshard/report.h"
#include "core/pipeline/plan/options.h"
#include "core/report/mesh_sweep.h"
#include "core/report/quantity_text.h"

namespace gshard {
namespace {

// "60s", "2min", "90" -> seconds.
double SecondsOf(const std::string& flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double seconds = unit == "min" ? 60 * value : value;
  const bool known = unit.empty() || unit == "s" || unit == "min";
  if (error != std::errc() || !known || !(seconds > 0)) {
    throw FlagError(flag, fmt::format("'{}' is no time such as 60s or 2min", text));
  }
  return seconds;
}

std::vector<int64_t> NumbersOf(const char* flag, const std::string& text) {
  if (text.empty()) return {};
  auto sizes = ParseSizes(text);
  if (!sizes) throw FlagError(flag, sizes.error());
  return *sizes;
}

// Which pipelines may be, where --devices is given.
void ReadPipelines(const AutoFlags& flags, autoshard::AutoOptions& options) {
  options.pipelines = flags.stages != "off";
  if (options.pipelines) options.stages = NumbersOf("--stages", flags.stages);
  options.microbatches = NumbersOf("--microbatches", flags.microbatches);
  for (std::string_view rest = flags.schedules; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    auto kind = pipeline::ParseSchedule(name);
    if (!kind) throw FlagError("--schedule", fmt::format("'{}': {}", name, kind.error().hint));
    options.schedules.emplace_back(name);
  }
  options.chip_flag = flags.estimate.chip.file.empty()
                          ? "--chip " + flags.estimate.chip.name
                          : "--chip-file " + autoshard::ShellWord(flags.estimate.chip.file);
}

// 1.rules, 1.sh, 2.rules, ..: the plans of the table.
Expected<void> WritePlans(const std::string& folder, const autoshard::AutoResult& result) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Fail(MakeError("E-IO-001",
                          fmt::format("cannot make the folder {}: {}", folder, error.message())));
  }
  for (size_t i = 0; i < result.plans.size(); ++i) {
    const autoshard::AutoPlan& plan = result.plans[i];
    auto done =
        WriteFile(fmt::format("{}/{}.rules", folder, i + 1), autoshard::RulesFile(result, plan));
    if (done) {
      done = WriteFile(fmt::format("{}/{}.sh", folder, i + 1),
                       fmt::format("#!/bin/sh\n{}\n", plan.command));
    }
    if (!done) return done;
  }
  return {};
}

Expected<void> WriteResults(const AutoFlags& flags, const autoshard::AutoResult& result) {
  auto done = WriteFile(flags.output, result.texts.front());
  // Who has OUT in a file, and asked for no report, sees here what was found.
  const bool is_silent = flags.report.empty() && flags.html.empty() && flags.write_plans.empty();
  if (done && is_silent && flags.output != "-") {
    fmt::print(stderr, "{}", autoshard::AutoSummary(result));
  }
  if (done && !flags.report.empty()) {
    done = WriteFile(flags.report,
                     flags.report.ends_with(".json") ? autoshard::AutoAsJson(result)
                                                     : autoshard::AutoAsText(result),
                     /*dash_is_stderr=*/true);
  }
  if (done && !flags.html.empty()) done = WriteFile(flags.html, autoshard::AutoAsPage(result));
  if (done && !flags.write_rules.empty()) {
    done = WriteFile(flags.write_rules, autoshard::RulesFile(result, result.plans.front()));
  }
  if (done && !flags.write_plans.empty()) done = WritePlans(flags.write_plans, result);
  return done;
}

}  // namespace

autoshard::AutoOptions AutoOptionsOf(const AutoFlags& flags, Chip chip) {
  autoshard::AutoOptions options;
  if (!flags.mesh.empty()) {
    auto mesh = ParseMeshFlag(flags.mesh);
    if (!mesh) throw FlagError("--mesh", mesh.error());
    options.mesh = std::move(*mesh);
  }
  options.pricing.cost = CostOptionsFor(flags.estimate);
  options.pricing.program = ProgramOptionsFor(flags.estimate);
  options.pricing.threads = flags.threads;
  options.limit_bytes = flags.limit.empty() ? static_cast<int64_t>(chip.hbm_bytes)
                                            : MemoryLimitOf("--limit", flags.limit);
  options.pricing.chip = std::move(chip);
  options.evaluations = flags.evaluations;
  options.seconds = SecondsOf("--time-limit", flags.time_limit);
  options.within = NumberOf("--within", flags.within) / 100;
  options.keep = flags.keep == "all"    ? autoshard::Keep::kAll
                 : flags.keep == "none" ? autoshard::Keep::kNone
                                        : autoshard::Keep::kInputsAndOutputs;
  for (const std::string& pattern : flags.freed) {
    options.rules.push_back({pattern, "free", "--free", 0});
  }
  for (const std::string& fix : flags.fixed) {
    Expected<AnnotationRule> rule = ParseAnnotationRule(fix, "--fix");
    if (!rule) throw FlagError("--fix", rule.error());
    options.rules.push_back(std::move(*rule));
  }
  options.zero = flags.zero == "auto";
  options.remat = flags.remat == "auto";
  options.top = static_cast<size_t>(flags.top);
  ReadPipelines(flags, options);
  return options;
}

int RunAuto(const AutoFlags& flags) {
  Expected<Chip> chip = ReadChip(flags.estimate.chip);
  if (!chip) return ReportError(chip.error());
  if (flags.mesh.empty() == (flags.devices == 0)) {
    throw FlagError("--mesh", "either it or --devices is required");
  }
  autoshard::AutoOptions options = AutoOptionsOf(flags, *std::move(chip));
  KnownMaskedShares masked_shares;
  options.pricing.cost.masked_shares = &masked_shares;
  auto module = ReadModule(flags.input);
  if (!module) return ReportError(module.error());
  const bool spells_attention_out = SpellsAttentionOut(**module);
  auto result = flags.devices > 0
                    ? autoshard::ShardOverDevices(**module, flags.input, flags.devices, options)
                    : autoshard::ShardAutomatically(std::move(*module), flags.input, options);
  if (!result) return ReportError(result.error());
  result->counts_flash_kernels = spells_attention_out && options.pricing.cost.fuse_attention &&
                                 options.pricing.chip.stack == Chip::Stack::kJax;
  if (auto written = WriteResults(flags, *result); !written) return ReportError(written.error());
  const autoshard::AutoPlan& best = result->plans.front();
  if (best.fits) return kExitOk;
  const auto peak = static_cast<double>(best.peak_bytes);
  const auto limit = static_cast<double>(options.limit_bytes);
  fmt::print(
      stderr,
      "gshard-opt: no plan fits {}: the smallest peak found is {} a device, the largest part "
      "of it {}\n",
      HumanBytes(limit), HumanBytes(peak), best.largest_at_peak);
  const std::string kept = autoshard::KeptAnnotationsText(*result);
  if (!kept.empty()) fmt::print(stderr, "  hint: {}\n", kept);
  return kExitCheckFailed;
}

void AddPlanFlags(const Command& command, AutoFlags& flags) {
  command.Add(
      "--limit", flags.limit,
      "Memory per device, such as 16GiB; auto ends with exit code 3 if no plan fits (default: the "
      "chip's)",
      {.type = "SIZE"});
  command.Add("--keep", flags.keep,
              "Which annotations of IN stay: all, io: those of parameters and results, none "
              "(default: io)",
              {.type = "all|io|none", .one_of = {"all", "io", "none"}});
  command.Add("--fix", flags.fixed,
              "Fix the sharding of what PATTERN finds, as annotate --shard does (may be repeated; "
              "default: nothing)",
              {.type = "PATTERN=SPEC"});
  command.Add(
      "--free", flags.freed,
      "Free what PATTERN finds of annotations that stay (may be repeated; default: nothing)",
      {.type = "PATTERN"});
  command.Add(
      "--zero", flags.zero,
      "May updates of weights and optimizer state be cut along the batch's axes? auto: where "
      "that is better (default: auto)",
      {.type = "off|auto", .one_of = {"off", "auto"}});
  command.Add(
      "--evaluations", flags.evaluations,
      "Most plans that are priced beside those of known styles, which are a few on each mesh; "
      "where none fits, up to twice as many more (default: 1250 to 3000, by the size of IN)",
      {.type = "N", .between = {{1, 10'000'000}}});
  command.Add("--time-limit", flags.time_limit,
              "As many plans at most as two cores price in so long, by the size of IN, so that "
              "machines agree (default: 60s)",
              {.type = "TIME"});
  command.Add("--threads", flags.threads,
              "Threads (default: one a core); the answer does not depend on them",
              {.type = "N", .between = {{1, 1024}}});
}

void AddAutoFlags(const Command& command, AutoFlags& flags) {
  command.Add("IN", flags.input, "HLO or StableHLO text; - is standard input (required)",
              {.type = "FILE", .required = true});
  AddReadFlags(command);
  command.Add("--mesh", flags.mesh,
              "Mesh axes, major first: data=8,model=4 (required without --devices)",
              {.type = "AXES"});
  command.Add("--devices", flags.devices,
              "Find the mesh too, of up to three axes over so many devices, and stages (default: "
              "--mesh)",
              {.type = "N", .between = {{2, 1 << 20}}});
  command.AddOnlyWith({"--devices"}, [&] {
    command.Add(
        "--stages", flags.stages,
        "With --devices: numbers of pipeline stages that may be, 4,8, or off (default: any)",
        {.type = "LIST|off"});
    command.Add(
        "--microbatches", flags.microbatches,
        "With --devices: numbers of micro-batches that may be, 16,32 (default: powers of 2)",
        {.type = "LIST"});
    command.Add("--schedule", flags.schedules,
                "With --devices: schedules of pipelines that may be, 1f1b,gpipe (default: all but "
                "shift)",
                {.type = "LIST"});
  });
  command.Add("-o,--output", flags.output,
              "Where IN with the annotations of the best plan goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  AddPlanFlags(command, flags);
  command.Add("--remat", flags.remat,
              "May values be computed again so that a plan fits or is faster? (default: auto)",
              {.type = "off|auto", .one_of = {"off", "auto"}});
  command.Add("--within", flags.within,
              "A plan within PERCENT % of perfect scaling ends the search: none is faster by more; "
              "0: none ends it (default: 0.5)",
              {.type = "PERCENT"});
  command.Add("--top", flags.top, "Most plans that are told (default: 10)",
              {.type = "N", .between = {{1, 1000}}});
  AddPropagationFlags(command, flags.estimate.propagation);
  AddPricingFlags(command, flags.estimate);
  command.Add("--report", flags.report,
              "Alternatives, rules, bound and commands, as text or, for FILE.json, as JSON "
              "(gshard.auto/1); - is standard error (default: plans and annotations on standard "
              "error where OUT is a file)",
              {.type = "FILE", .is_output = true, .dash_is_stderr = true});
  command.Add("--html", flags.html,
              "Write a plot of the plans, their annotations and commands as a page (default: none)",
              {.type = "FILE", .is_output = true});
  command.Add("--write-rules", flags.write_rules,
              "Write the best plan as rules for annotate --rules (default: none)",
              {.type = "FILE", .is_output = true});
  command.Add("--write-plans", flags.write_plans,
              "Write rules and command of each plan to this folder: 1.rules, 1.sh, .. (default: "
              "none)",
              {.type = "DIR", .is_output = true});
}

}  // namespace gshard
