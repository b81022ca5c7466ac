// gshard-opt: print, annotate, propagate, partition, optimize and explain HLO text.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "cmd/cli/auto.h"
#include "cmd/cli/check.h"
#include "cmd/cli/estimate.h"
#include "cmd/cli/explain.h"
#include "cmd/cli/list_ops.h"
#include "cmd/cli/pipeline.h"
#include "cmd/cli/program.h"
#include "cmd/cli/propagation_flags.h"
#include "cmd/cli/reduce/reduce.h"
#include "cmd/cli/session.h"
#include "cmd/cli/show.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/autodiff/gradient.h"
#include "core/estimate/device_program.h"
#include "core/json.h"
#include "core/remat/fit_to_memory.h"
#include "core/remat/report/remat_report.h"
#include "core/report/annotation_advice.h"
#include "core/report/collective_report.h"
#include "core/report/quantity_text.h"
#include "core/report/sharding_report.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/annotations/annotate.h"
#include "ir/opcode.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

struct Flags {
  SessionOptions session;
  ExplainOptions explain;
  ShowOptions show;
  CheckOptions check;
  PassContext context;
  std::string mesh, rules_file;
  std::vector<std::string> shards;
  PropagationFlags propagation;
  std::string report;
  int64_t top = 40;
  bool no_propagate = false;
  bool no_split_constants = false;
  bool as_xla = false;
  std::string limit;
  EstimateFlags memory;  // what says how much memory is taken
  std::string passes, combine_threshold, windowed_einsum;
  bool weight_update_sharding = false;
  bool json = false;
  PipelineFlags pipeline;
  AutoFlags automatic;
  ReduceFlags reduce;
  std::string wrt;
  GradientOptions gradient;
};

// Byte sizes that are options of passes.
void ReadPassFlags(Flags& flags) {
  auto read = [](const char* flag, const std::string& text, int64_t& bytes) {
    if (!text.empty()) bytes = ByteSizeOf(flag, text);
  };
  read("--combine-threshold", flags.combine_threshold, flags.context.combine.max_bytes);
  read("--windowed-einsum", flags.windowed_einsum, flags.context.windowed_einsum.min_bytes);
}

Expected<std::vector<AnnotationRule>> ReadRulesFile(const Flags& flags) {
  if (flags.rules_file.empty()) return std::vector<AnnotationRule>();
  Expected<std::string> text = ReadFile(flags.rules_file);
  if (!text) return Fail(std::move(text.error()));
  return ParseRulesFile(*text, flags.rules_file);
}

AnnotateOptions ReadAnnotateFlags(const Flags& flags, std::vector<AnnotationRule> rules) {
  AnnotateOptions options;
  options.rules = std::move(rules);
  if (!flags.mesh.empty()) {
    auto mesh = ParseMeshFlag(flags.mesh);
    if (!mesh) throw FlagError("--mesh", mesh.error());
    options.mesh = std::move(*mesh);
  }
  for (const std::string& shard : flags.shards) {
    Expected<AnnotationRule> rule = ParseAnnotationRule(shard, "--shard");
    if (!rule)
      throw FlagError("--shard",
                      fmt::format("'{}' is no annotation; {}", shard, rule.error().hint));
    options.rules.push_back(std::move(*rule));
  }
  return options;
}

int RunPrint(Flags& flags) {
  if (flags.session.format == "stablehlo") {
    if (!flags.session.print.ids) throw FlagError("--no-ids", "StableHLO's names are numbers only");
    if (flags.session.print.tiles && !flags.session.gspmd) {
      throw FlagError("--tiles", "Shardy spells shardings by mesh axis; --gspmd by tiles");
    }
  }
  return RunSession(flags.session, flags.context,
                    [](Module&, PassContext&, const PassManagerOptions&, std::vector<PassTiming>&) {
                      return Expected<void>();
                    });
}

int RunAnnotate(Flags& flags) {
  Expected<std::vector<AnnotationRule>> rules = ReadRulesFile(flags);
  if (!rules) return ReportError(rules.error());
  const AnnotateOptions options = ReadAnnotateFlags(flags, std::move(*rules));
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext&, const PassManagerOptions&,
                        std::vector<PassTiming>&) -> Expected<void> {
                      if (auto done = Annotate(module, options); !done) return done;
                      // What the text has already may be for another number of devices.
                      return VerifyModule(module);
                    });
}

PerDeviceOptions WayOf(const Flags& flags, const PassManagerOptions& passes,
                       std::vector<PassTiming>& timings) {
  PerDeviceOptions way;
  way.num_partitions = flags.session.num_partitions;
  way.propagate = !flags.no_propagate;
  way.split_constants = !flags.no_split_constants;
  way.weight_update_sharding = flags.weight_update_sharding;
  way.windowed_einsum = !flags.windowed_einsum.empty();
  way.passes = passes;
  way.timings = &timings;
  return way;
}

int RunPropagate(Flags& flags) {
  ReadPropagationFlags(flags.propagation, flags.context.propagation);
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext& context, const PassManagerOptions& options,
                        std::vector<PassTiming>& timings) -> Expected<void> {
                      PropagationFindings findings;
                      if (!flags.report.empty()) context.propagation.findings = &findings;
                      PerDeviceOptions way = WayOf(flags, options, timings);
                      way.pad_dynamic_sizes = false;
                      auto done = CompleteShardings(module, context, way);
                      context.propagation.findings = nullptr;
                      if (!done) return Fail(done.error());
                      if (flags.report.empty()) return {};
                      ShardingReport report = MakeShardingReport(module, findings);
                      report.propagated_as = context.propagated_as;
                      bool json = flags.report.ends_with(".json");
                      return WriteFile(flags.report,
                                       json ? ShardingReportJson(module, report)
                                            : ShardingReportText(module, report, NamedMesh(module)),
                                       /*dash_is_stderr=*/true);
                    });
}

// Writes what the partitioned module sends, and why.
Expected<void> WriteCollectiveReport(const std::string& path, Module& module,
                                     const CollectiveReport& report, int64_t top) {
  return WriteFile(path,
                   path.ends_with(".json")
                       ? CollectiveReportJson(module, report)
                       : CollectiveReportText(module, report, static_cast<size_t>(top)),
                   /*dash_is_stderr=*/true);
}

int RunPartition(Flags& flags) {
  ReadPropagationFlags(flags.propagation, flags.context.propagation);
  ReadPassFlags(flags);
  if (flags.as_xla) flags.context.partition.policies = PartitionPolicies::AsXla();
  return RunSession(
      flags.session, flags.context,
      [&](Module& module, PassContext& context, const PassManagerOptions& options,
          std::vector<PassTiming>& timings) -> Expected<void> {
        if (IsCompiledByXla(module)) {
          Diagnostic error = module.ErrorAt(module.entry()->source(), "E-PARTITION-007",
                                            "this is the program of one device already");
          error.hint =
              "partition the dump from before XLA's optimisations: *.before_optimizations.txt";
          return Fail(std::move(error));
        }
        if (HasPartitionRecord(module)) {
          return Fail(MakeError("E-PARTITION-007", "this is the program of one device already",
                                "partition the text that `propagate` printed"));
        }
        std::unique_ptr<Module> original = flags.report.empty() ? nullptr : module.Clone();
        ExplainRecorder recorder;
        if (original != nullptr) context.recorder = &recorder;
        const PerDeviceOptions way = WayOf(flags, options, timings);
        auto done = MakePerDeviceModule(module, context, way);
        context.recorder = nullptr;
        if (!done) return Fail(done.error());
        if (original == nullptr) return {};
        CollectiveReport report = MakeCollectiveReport(module, &recorder);
        report.propagated_as = context.propagated_as;
        AdviseAnnotations(*original, context, way, report);
        return WriteCollectiveReport(flags.report, module, report, flags.top);
      });
}

Expected<void> TimedDifferentiate(Module& module, const GradientOptions& options,
                                  std::vector<PassTiming>& timings) {
  const auto start = std::chrono::steady_clock::now();
  Expected<void> done = Differentiate(module, options);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  timings.push_back({"grad", elapsed.count()});
  return done;
}

int RunGrad(Flags& flags) {
  std::string_view rest = flags.wrt;
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.empty()) {
      return UsageError(MakeError("E-USAGE-004", "--wrt: a parameter is missing between commas",
                                  "for example --wrt p0,p2"));
    }
    flags.gradient.with_respect_to.emplace_back(word);
  }
  if (auto checked = CheckGradientOptions(flags.gradient); !checked) {
    return UsageError(checked.error());
  }
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext&, const PassManagerOptions&,
                        std::vector<PassTiming>& timings) {
                      return TimedDifferentiate(module, flags.gradient, timings);
                    });
}

// Throws FlagError for flags that none of the passes asks.
void CheckPassFlags(const Flags& flags, std::span<const Pass* const> passes) {
  const auto check = [&](const char* flag, const std::string& given, std::string_view asked_by) {
    const bool is_asked = std::ranges::any_of(
        passes, [&](const Pass* pass) { return pass->name.ends_with(asked_by); });
    if (!given.empty() && !is_asked) {
      throw FlagError(flag, fmt::format("none of --passes is a {}", asked_by));
    }
  };
  check("--combine-threshold", flags.combine_threshold, "combiner");
  check("--windowed-einsum", flags.windowed_einsum, "windowed-einsum");
  check("--weight-update-axes", flags.context.weight_update.axes, "weight-update-sharding");
}

int RunOptimize(Flags& flags) {
  std::vector<const Pass*> passes;
  if (flags.passes.empty()) {
    passes = DefaultOptimizationPasses();
    if (!flags.windowed_einsum.empty()) passes.insert(passes.begin(), FindPass("windowed-einsum"));
  }
  std::string_view rest = flags.passes;
  while (!rest.empty()) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    passes.push_back(PassOf("--passes", name));
  }
  CheckPassFlags(flags, passes);
  ReadPassFlags(flags);
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext& context, const PassManagerOptions& options,
                        std::vector<PassTiming>& timings) {
                      return RunPasses(module, passes, context, options, &timings);
                    });
}

// To where --report says.
Expected<void> WriteRematReport(const Flags& flags, const RematReport& report) {
  const bool json = flags.report.ends_with(".json");
  return WriteFile(flags.report, json ? RematReportAsJson(report) : RematReportAsText(report),
                   /*dash_is_stderr=*/true);
}

int RunRemat(Flags& flags) {
  FitOptions options;
  options.limit_bytes = MemoryLimitOf("--limit", flags.limit);
  options.num_partitions = flags.session.num_partitions;
  const Expected<Chip> chip = ReadChip(flags.memory.chip);
  if (!chip) return ReportError(chip.error());
  options.memory = MemoryOptionsOf(*chip, CostOptionsFor(flags.memory));
  options.cleanup = CleanupOf(*chip);
  RematRecord record;
  options.record = &record;
  RematStats stats;
  double flops_again = 0;
  int code = RunSession(flags.session, flags.context,
                        [&](Module& module, PassContext& context, const PassManagerOptions&,
                            std::vector<PassTiming>&) -> Expected<void> {
                          Expected<RematStats> done = FitToMemory(module, context, options);
                          if (!done) return Fail(done.error());
                          stats = *done;
                          RematReport report = MakeRematReport(record, stats);
                          flops_again = report.flops;
                          if (flags.report.empty()) return {};
                          report.module = module.name();
                          report.chip = chip->name;
                          report.limit_bytes = options.limit_bytes;
                          return WriteRematReport(flags, report);
                        });
  if (code != kExitOk) return code;
  bool fits = stats.peak_after <= options.limit_bytes;
  fmt::print(stderr,
             "gshard-opt: {} a device, {} before: {} values are computed again, by {} instructions "
             "of {} a device\n",
             HumanBytes(static_cast<double>(stats.peak_after)),
             HumanBytes(static_cast<double>(stats.peak_before)), stats.values, stats.instructions,
             HumanFlops(flops_again));
  if (fits) return kExitOk;
  fmt::print(stderr, "gshard-opt: does NOT fit: over {} by {}; {}\n",
             HumanBytes(static_cast<double>(options.limit_bytes)),
             HumanBytes(static_cast<double>(stats.peak_after - options.limit_bytes)),
             options.memory.fusion.for_gpu
                 ? "in the order of XLA's compiler for GPUs nothing more lowers the peak"
                 : "what is left is needed at the peak");
  return kExitCheckFailed;
}

int ListPasses(const Flags& flags) {
  Json list = Json::Array();
  std::string text;
  for (const Pass& pass : AllPasses()) {
    if (flags.json) {
      list.Append({{"name", pass.name}, {"description", pass.description}});
    } else {
      text += fmt::format("{:<35}{}\n", pass.name, pass.description);
    }
  }
  if (flags.json) {
    const Json document = {{"schema", "gshard.list_passes/1"}, {"passes", std::move(list)}};
    text = document.Text();
  }
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

// `asks_for_update`: the flag that may ask for weight-update-sharding.
void AddPassFlags(const Command& command, const char* asks_for_update, Flags& flags) {
  command.Add("--windowed-einsum", flags.windowed_einsum,
              "Loop einsums whose all-gather or reduce-scatter has so many bytes (default: none)",
              {.type = "SIZE"});
  command.AddOnlyWith({asks_for_update}, [&] {
    command.Add("--weight-update-axes", flags.context.weight_update.axes,
                "Mesh axes of weight-update-sharding, joined by + (default: the batch's)",
                {.type = "AXES"});
  });
}

void AddPrintFlags(const Command& print, Flags& flags) {
  print.Add("--format", flags.session.format,
            "Language of the result: hlo, or stablehlo with Shardy (default: hlo)",
            {.type = "FORMAT", .one_of = {"hlo", "stablehlo"}});
  print.AddOnlyWith({"--format"}, [&] {
    print.AddSwitch("--gspmd", flags.session.gspmd,
                    "With --format stablehlo: shardings as mhlo.sharding, not Shardy's");
  });
}

void AddAnnotateFlags(const Command& annotate, Flags& flags) {
  annotate.Add("--mesh", flags.mesh,
               "Mesh axes, major first: data=32,model=64 (default: the module's mesh)",
               {.type = "AXES"});
  annotate.Add("--shard", flags.shards,
               "Shard what REGEX finds in an instruction's name, its op_name or param:K. SPEC: for "
               "each dim an "
               "axis, data+model, _ (whole) or * (open), .. for the rest whole; or replicated, "
               "device:K, {sharding text} "
               "(may be repeated; default: none)",
               {.type = "REGEX=SPEC"});
  annotate.Add("--rules", flags.rules_file,
               "File of REGEX=SPEC, one a line, tried before --shard (default: none)",
               {.type = "FILE"});
}

void AddConstantFlag(const Command& command, Flags& flags) {
  command.AddSwitch("--no-split-constants", flags.no_split_constants,
                    "A constant has one sharding for all its users, as in XLA on CPU");
}

void AddPropagateFlags(const Command& propagate, Flags& flags) {
  AddPropagationFlags(propagate, flags.propagation);
  AddConstantFlag(propagate, flags);
  propagate.Add(
      "--report", flags.report,
      "Replicated tensors, conflicting annotations, padding, as text or, for FILE.json, as "
      "JSON; - is standard error (default: no report)",
      {.type = "FILE", .is_output = true, .dash_is_stderr = true});
}

void AddPartitionFlags(const Command& partition, Flags& flags) {
  AddPropagationFlags(partition, flags.propagation);
  AddConstantFlag(partition, flags);
  partition.AddSwitch("--no-propagate", flags.no_propagate, "Take shardings as they are");
  partition.AddSwitch("--as-xla", flags.as_xla, kAsXlaHelp);
  partition.AddSwitch("--weight-update-sharding", flags.weight_update_sharding,
                      "Cut optimizer state and weight updates along the batch's axes first");
  AddPassFlags(partition, "--weight-update-sharding", flags);
  partition.Add(
      "--report", flags.report,
      "Collectives by bytes with their causes, full rematerialisations and what avoids "
      "them, as text or, for FILE.json, as JSON; - is standard error (default: no report)",
      {.type = "FILE", .is_output = true, .dash_is_stderr = true});
  partition.AddOnlyWith({"--report"}, [&] {
    partition.Add(
        "--top", flags.top,
        "Rows of the report's collectives and rematerialisations (default: 40, in JSON all)",
        {.type = "N", .between = {{1, INT32_MAX}}});
  });
}

void AddOptimizeFlags(const Command& optimize, Flags& flags) {
  optimize.Add("--passes", flags.passes,
               fmt::format("Joined by commas; list-passes tells what they do (default: {})",
                           fmt::join(DefaultOptimization(), ", ")),
               {.type = "PASSES"});
  AddPassFlags(optimize, "--passes", flags);
  optimize.Add("--combine-threshold", flags.combine_threshold,
               "Most bytes of a combined collective (default: 32MiB)", {.type = "SIZE"});
}

void AddRematFlags(const Command& remat, Flags& flags) {
  remat.Add("--limit", flags.limit,
            "Memory limit per device: exit 3, with the best there is printed, if it cannot be met "
            "(required)",
            {.type = "SIZE", .required = true});
  AddMemoryFlags(remat, flags.memory);
  remat.Add("--report", flags.report,
            "What a device computes again, by source line, and the policy of jax.checkpoint that "
            "keeps the rest, as text or, for FILE.json, as JSON; - is standard error (default: no "
            "report)",
            {.type = "FILE", .is_output = true, .dash_is_stderr = true});
}

void AddGradFlags(const Command& grad, Flags& flags) {
  grad.Add("--wrt", flags.wrt,
           "Parameters joined by commas: p2 is number 2, other words are names (default: all "
           "floating ones)",
           {.type = "PARAMETERS"});
  grad.Add("--stop", flags.gradient.stop,
           "Instructions whose name or op_name matches are constants (default: none)",
           {.type = "REGEX"});
  grad.AddSwitch("--remat", flags.gradient.rematerialize,
                 "Loops, branches and calls keep their inputs and compute the rest again");
}

void AddExplainFlags(const Command& explain, Flags& flags) {
  AddInputFlags(explain, flags.explain.input, flags.explain.num_partitions);
  explain.Add(
      "NAME", flags.explain.name,
      "An instruction of IN, an op_name of one only, a collective of its partitioned program, "
      "or a line of the program it was made of, gpt.py:22 (required)",
      {.type = "INSTRUCTION", .required = true});
  AddPropagationFlags(explain, flags.propagation);
  explain.AddSwitch("--json", flags.explain.json, "JSON (gshard.explain/1)");
  AutoFlags& plans = flags.explain.automatic;
  explain.AddSwitch(
      "--plan", flags.explain.plan,
      "How automatic sharding could cut NAME, and what each choice makes of the plan");
  explain.AddOnlyWith({"--plan"}, [&] {
    explain.Add("--mesh", plans.mesh, "With --plan: mesh axes, major first (default: IN's own)",
                {.type = "AXES"});
    AddPlanFlags(explain, plans);
    AddPricingFlags(explain, plans.estimate);
  });
}

void AddShowFlags(const Command& show, Flags& flags) {
  AddInputFlags(show, flags.show.input, flags.show.num_partitions);
  show.Add("NAME", flags.show.name, "An instruction of IN, or an op_name of one only (required)",
           {.type = "INSTRUCTION", .required = true});
  AddPropagationFlags(show, flags.propagation);
  show.AddSwitch("--full", flags.show.full, "All rows and columns, however many");
  show.AddSwitch("--json", flags.show.json, "JSON (gshard.show/1)");
}

void AddCheckFlags(const Command& check, Flags& flags) {
  AddInputFlags(check, flags.check.input, flags.check.num_partitions);
  check.Add("--partitioned", flags.check.partitioned,
            "Is IN the program of one device already? (default: found out)",
            {.type = "yes|no", .one_of = {"yes", "no"}});
  AddPropagationFlags(check, flags.propagation);
  check.AddSwitch("--json", flags.check.json, "JSON (gshard.check/1)");
  AddCiFlags(check, flags.check.ci);
}

// A subcommand that reads a module and prints what `run` makes of it.
void AddTransformation(CommandLine& line, Flags& flags, const char* name, const char* description,
                       const char* example, int (*run)(Flags&),
                       void (*add_flags)(const Command&, Flags&)) {
  line.AddSubcommand(
      name, description, example, [&flags, run] { return run(flags); },
      [&flags, add_flags](const Command& command) {
        AddSessionFlags(command, flags.session);
        add_flags(command, flags);
      });
}

void AddTransformations(CommandLine& line, Flags& flags) {
  AddTransformation(line, flags, "print", "Parse, verify and print",
                    "gshard-opt print step.hlo --no-metadata --no-ids", RunPrint, AddPrintFlags);
  AddTransformation(
      line, flags, "annotate", "Put shardings on instructions by name",
      "gshard-opt annotate step.hlo --mesh data=4,model=2 --shard 'wi$=_,model' -o sharded.hlo",
      RunAnnotate, AddAnnotateFlags);
  AddTransformation(line, flags, "propagate", "Infer the sharding of every tensor",
                    "gshard-opt propagate sharded.hlo --named --report -", RunPropagate,
                    AddPropagateFlags);
  AddTransformation(line, flags, "partition", "Propagate, then emit the program of one device",
                    "gshard-opt partition sharded.hlo --report - -o device.hlo", RunPartition,
                    AddPartitionFlags);
  AddTransformation(line, flags, "optimize", "Run clean-up and collective passes",
                    "gshard-opt optimize device.hlo --passes algsimp,cse", RunOptimize,
                    AddOptimizeFlags);
  AddTransformation(line, flags, "grad", "Append the gradients of the first result to the results",
                    "gshard-opt grad loss.hlo --wrt p0,embedding -o gradient.hlo", RunGrad,
                    AddGradFlags);
  AddTransformation(
      line, flags, "pipeline", kPipelineDescription,
      "gshard-opt pipeline step.hlo --stages 4 --microbatches 16 --report - -o pipelined.hlo",
      [](Flags& f) { return RunPipeline(f.session, f.context, f.pipeline); },
      [](const Command& command, Flags& f) { AddPipelineFlags(command, f.pipeline); });
  AddTransformation(
      line, flags, "remat", "Compute values again instead of keeping them, until the peak fits",
      "gshard-opt remat sharded.hlo --limit 16GiB -o fits.hlo", RunRemat, AddRematFlags);
}

// A subcommand that tells something of a module as propagation leaves it.
void AddQuestion(CommandLine& line, Flags& flags, const char* name, const char* description,
                 const char* example, int (*run)(Flags&),
                 void (*add_flags)(const Command&, Flags&)) {
  line.AddSubcommand(
      name, description, example,
      [&flags, run] {
        ReadPropagationFlags(flags.propagation, flags.context.propagation);
        return run(flags);
      },
      [&flags, add_flags](const Command& command) { add_flags(command, flags); });
}

// Subcommands that tell something of a module, or of gshard-opt.
void AddQuestions(CommandLine& line, Flags& flags) {
  AddQuestion(
      line, flags, "explain", "Why a value is sharded so, and which collectives it needs",
      "gshard-opt explain sharded.hlo relu",
      [](Flags& f) {
        f.explain.automatic.estimate.propagation = f.propagation;
        return RunExplain(f.explain, f.context);
      },
      AddExplainFlags);
  AddQuestion(
      line, flags, "show", "Draw a tensor's sharding as a grid of devices",
      "gshard-opt show sharded.hlo relu", [](Flags& f) { return RunShow(f.show, f.context); },
      AddShowFlags);
  AddQuestion(
      line, flags, "check", "Find deadlocks and collectives that do not match, without a run",
      "gshard-opt check step.hlo", [](Flags& f) { return RunCheck(f.check, f.context); },
      AddCheckFlags);
  line.AddSubcommand(
      "reduce", "Make a program small on which a command still succeeds",
      "gshard-opt reduce step.hlo --verify-fails -o small.hlo",
      [&flags] { return RunReduce(flags.reduce); },
      [&flags](const Command& command) { AddReduceFlags(command, flags.reduce); });
  auto add_json = [&flags](const char* schema) {
    return [&flags, schema](const Command& list) {
      list.AddSwitch("--json", flags.json, fmt::format("JSON ({})", schema));
    };
  };
  line.AddSubcommand(
      "auto", "Find shardings: the few annotations of the best plan, with alternatives",
      "gshard-opt auto step.hlo --mesh data=8,model=4 --chip tpu-v5p --report - -o sharded.hlo",
      [&flags] { return RunAuto(flags.automatic); },
      [&flags](const Command& command) { AddAutoFlags(command, flags.automatic); });
  line.AddSubcommand(
      "list-ops", "What each layer knows of each opcode", "gshard-opt list-ops",
      [&flags] { return RunListOps(flags.json); }, add_json("gshard.list_ops/1"));
  line.AddSubcommand(
      "list-passes", "The passes there are", "gshard-opt list-passes",
      [&flags] { return ListPasses(flags); }, add_json("gshard.list_passes/1"));
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  Flags flags;
  CommandLine line(
      "gshard-opt",
      "Parses, annotates, propagates, partitions and explains HLO text.\n\n"
      "Example: gshard-opt annotate step.hlo --mesh data=4,model=2 --shard 'wi$=_,model' | "
      "gshard-opt partition -");
  AddTransformations(line, flags);
  AddQuestions(line, flags);
  return line.Run(argc, argv);
}
