// gshard-opt: print, annotate, propagate, partition, optimize and explain HLO text.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cmd/cli/explain.h"
#include "cmd/cli/list_ops.h"
#include "cmd/cli/program.h"
#include "cmd/cli/session.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/report/annotation_advice.h"
#include "core/report/collective_report.h"
#include "core/report/sharding_report.h"
#include "core/transforms/annotate.h"
#include "ir/opcode.h"

namespace gshard {
namespace {

// What the subcommand chosen on the command line does.
using Action = std::function<int()>;

struct Flags {
  SessionOptions session;
  ExplainOptions explain;
  PassContext context;
  std::string mesh, rules_file;
  std::vector<std::string> shards;
  std::optional<std::string> to_parameters, to_output;
  std::string report;
  bool no_propagate = false;
  std::string passes, combine_threshold, windowed_einsum;
  bool weight_update_sharding = false;
  bool json = false;
};

Expected<void> RunNamed(std::initializer_list<std::string_view> names, Module& module,
                        PassContext& context, const PassManagerOptions& options,
                        std::vector<PassTiming>& timings) {
  std::vector<const Pass*> passes;
  for (std::string_view name : names) passes.push_back(FindPass(name));
  return RunPasses(module, passes, context, options, &timings);
}

Expected<void> ReadPropagationFlags(Flags& flags) {
  auto read = [](const std::optional<std::string>& text,
                 std::vector<bool>& values) -> Expected<void> {
    if (!text) return {};
    Expected<std::vector<bool>> parsed = ParseBools(*text);
    if (!parsed) return Fail(std::move(parsed.error()));
    values = std::move(*parsed);
    return {};
  };
  if (auto done = read(flags.to_parameters, flags.context.propagation.allow_to_parameters); !done)
    return done;
  return read(flags.to_output, flags.context.propagation.allow_to_output);
}

// Byte sizes that are options of passes.
Expected<void> ReadPassFlags(Flags& flags) {
  auto read = [](const std::string& text, int64_t& bytes) -> Expected<void> {
    if (text.empty()) return {};
    Expected<int64_t> parsed = ParseByteSize(text);
    if (!parsed) return Fail(std::move(parsed.error()));
    bytes = *parsed;
    return {};
  };
  if (auto done = read(flags.combine_threshold, flags.context.combine.most_bytes); !done)
    return done;
  return read(flags.windowed_einsum, flags.context.windowed_einsum.smallest_bytes);
}

Expected<std::vector<AnnotationRule>> ReadRulesFile(const Flags& flags) {
  if (flags.rules_file.empty()) return std::vector<AnnotationRule>();
  Expected<std::string> text = ReadFile(flags.rules_file);
  if (!text) return Fail(std::move(text.error()));
  return ParseRulesFile(*text, flags.rules_file);
}

Expected<AnnotateOptions> ReadAnnotateFlags(const Flags& flags, std::vector<AnnotationRule> rules) {
  AnnotateOptions options;
  options.rules = std::move(rules);
  if (!flags.mesh.empty()) {
    auto mesh = ParseMeshFlag(flags.mesh);
    if (!mesh) return Fail(std::move(mesh.error()));
    options.mesh = std::move(*mesh);
  }
  for (const std::string& shard : flags.shards) {
    Expected<AnnotationRule> rule = ParseAnnotationRule(shard, "--shard");
    if (!rule) return Fail(std::move(rule.error()));
    options.rules.push_back(std::move(*rule));
  }
  return options;
}

int RunPrint(Flags& flags) {
  return RunSession(flags.session, flags.context,
                    [](Module&, PassContext&, const PassManagerOptions&, std::vector<PassTiming>&) {
                      return Expected<void>();
                    });
}

int RunAnnotate(Flags& flags) {
  Expected<std::vector<AnnotationRule>> rules = ReadRulesFile(flags);
  if (!rules) return ReportError(rules.error());
  Expected<AnnotateOptions> options = ReadAnnotateFlags(flags, std::move(*rules));
  if (!options) return UsageError(options.error());
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext&, const PassManagerOptions&,
                        std::vector<PassTiming>&) { return Annotate(module, *options); });
}

int RunPropagate(Flags& flags) {
  if (auto read = ReadPropagationFlags(flags); !read) return UsageError(read.error());
  return RunSession(
      flags.session, flags.context,
      [&](Module& module, PassContext& context, const PassManagerOptions& options,
          std::vector<PassTiming>& timings) -> Expected<void> {
        PropagationFindings findings;
        if (!flags.report.empty()) context.propagation.findings = &findings;
        auto done = RunNamed({"inline-calls", "propagate"}, module, context, options, timings);
        context.propagation.findings = nullptr;
        if (!done || flags.report.empty()) return done;
        ShardingReport report = MakeShardingReport(module, findings);
        bool json = flags.report.ends_with(".json");
        return WriteFile(flags.report,
                         json ? ShardingReportJson(module, report)
                              : ShardingReportText(module, report, NamedMesh(module)),
                         /*dash_is_stderr=*/true);
      });
}

// Writes what the partitioned module sends, and why.
Expected<void> WriteCollectiveReport(const std::string& path, Module& module,
                                     const CollectiveReport& report) {
  return WriteFile(path,
                   path.ends_with(".json") ? CollectiveReportJson(module, report)
                                           : CollectiveReportText(module, report),
                   /*dash_is_stderr=*/true);
}

int RunPartition(Flags& flags) {
  if (auto read = ReadPropagationFlags(flags); !read) return UsageError(read.error());
  flags.context.partition.num_partitions = flags.session.num_partitions;
  if (auto read = ReadPassFlags(flags); !read) return UsageError(read.error());
  return RunSession(
      flags.session, flags.context,
      [&](Module& module, PassContext& context, const PassManagerOptions& options,
          std::vector<PassTiming>& timings) -> Expected<void> {
        if (HasPartitionRecord(module)) {
          return Fail(MakeError("E-PARTITION-007", "this is the program of one device already",
                                "partition the text that `propagate` printed"));
        }
        std::unique_ptr<Module> original = flags.report.empty() ? nullptr : module.Clone();
        ExplainRecorder recorder;
        if (original != nullptr) context.recorder = &recorder;
        if (auto inlined = RunNamed({"inline-calls"}, module, context, options, timings); !inlined)
          return inlined;
        if (flags.weight_update_sharding) {
          auto done = RunNamed({"weight-update-sharding"}, module, context, options, timings);
          if (!done) return done;
        }
        if (!flags.no_propagate) {
          if (auto done = RunNamed({"propagate"}, module, context, options, timings); !done)
            return done;
        }
        auto done = RunNamed({"partition"}, module, context, options, timings);
        context.recorder = nullptr;
        if (done && !flags.windowed_einsum.empty()) {
          done = RunNamed({"windowed-einsum"}, module, context, options, timings);
        }
        if (!done || original == nullptr) return done;
        CollectiveReport report = MakeCollectiveReport(module, &recorder);
        AdviseAnnotations(*original, context, report);
        return WriteCollectiveReport(flags.report, module, report);
      });
}

int RunOptimize(Flags& flags) {
  std::vector<const Pass*> passes;
  if (flags.passes.empty()) {
    if (!flags.windowed_einsum.empty()) passes.push_back(FindPass("windowed-einsum"));
    for (std::string_view name : DefaultOptimization()) passes.push_back(FindPass(name));
  }
  std::string_view rest = flags.passes;
  while (!rest.empty()) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    passes.push_back(FindPass(name));
    if (passes.back() == nullptr) {
      return UsageError(MakeError("E-USAGE-003", fmt::format("no pass is called '{}'", name),
                                  "gshard-opt list-passes prints their names"));
    }
  }
  if (auto read = ReadPassFlags(flags); !read) return UsageError(read.error());
  return RunSession(flags.session, flags.context,
                    [&](Module& module, PassContext& context, const PassManagerOptions& options,
                        std::vector<PassTiming>& timings) {
                      return RunPasses(module, passes, context, options, &timings);
                    });
}

int ListPasses(const Flags& flags) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Pass& pass : AllPasses()) {
    if (flags.json) {
      list.push_back(
          {{"name", std::string(pass.name)}, {"description", std::string(pass.description)}});
    } else {
      fmt::print("{:<35}{}\n", pass.name, pass.description);
    }
  }
  if (flags.json) {
    nlohmann::ordered_json document = {{"schema", "gshard.list_passes/1"}, {"passes", list}};
    fmt::print("{}\n", document.dump(2));
  }
  return kExitOk;
}

void AddPassFlags(CLI::App* command, Flags& flags) {
  command->add_option("--windowed-einsum", flags.windowed_einsum,
                      "Loop einsums whose all-gather or reduce-scatter has so many bytes");
  command->add_option("--weight-update-axes", flags.context.weight_update.axes,
                      "Mesh axes of weight-update-sharding, joined by + (default: the batch's)");
}

void AddPropagationFlags(CLI::App* command, Flags& flags) {
  command
      ->add_option(
          "--allow-spmd-sharding-propagation-to-parameters", flags.to_parameters,
          "May parameters take shardings: true,false,.. (bare: all; default: the module's header)")
      ->expected(0, 1)
      ->default_str("");
  command
      ->add_option("--allow-spmd-sharding-propagation-to-output", flags.to_output,
                   "The same for outputs")
      ->expected(0, 1)
      ->default_str("");
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  Flags flags;
  Action action;
  CLI::App app(
      "Parses, annotates, propagates, partitions and explains HLO text.\n\n"
      "Example: gshard-opt annotate step.hlo --mesh data=4,model=2 --shard 'wi$=_,model' | "
      "gshard-opt partition -",
      "gshard-opt");
  app.require_subcommand(1);
  auto add = [&](const char* name, const char* description, int (*run)(Flags&)) {
    CLI::App* command = app.add_subcommand(name, description);
    AddSessionFlags(*command, flags.session);
    command->callback([&flags, &action, run] { action = [&flags, run] { return run(flags); }; });
    return command;
  };
  add("print", "Parse, verify and print", RunPrint);
  CLI::App* annotate = add("annotate", "Put shardings on instructions by name", RunAnnotate);
  annotate->add_option("--mesh", flags.mesh, "Mesh axes, major first: data=32,model=64")
      ->type_name("AXES");
  annotate
      ->add_option(
          "--shard", flags.shards,
          "REGEX=SPEC: SPEC is data,_,data+model,* a dim, replicated, device:K, or {sharding text}")
      ->take_all()
      ->expected(1);
  annotate->add_option("--rules", flags.rules_file, "File of such rules, one a line")
      ->type_name("FILE");
  CLI::App* propagate = add("propagate", "Infer the sharding of every tensor", RunPropagate);
  AddPropagationFlags(propagate, flags);
  propagate
      ->add_option("--report", flags.report,
                   "Replicated tensors, conflicting annotations, padding; - is standard "
                   "error (.json: JSON)")
      ->type_name("FILE");
  CLI::App* partition =
      add("partition", "Propagate, then emit the program of one device", RunPartition);
  AddPropagationFlags(partition, flags);
  partition->add_flag("--no-propagate", flags.no_propagate, "Take shardings as they are");
  partition->add_flag("--weight-update-sharding", flags.weight_update_sharding,
                      "Cut optimizer state and weight updates along the batch's axes first");
  AddPassFlags(partition, flags);
  partition
      ->add_option("--report", flags.report,
                   "Collectives by bytes with their causes, full rematerialisations and what "
                   "avoids them; - is standard error (.json: JSON)")
      ->type_name("FILE");
  CLI::App* optimize = add("optimize", "Run clean-up and collective passes", RunOptimize);
  optimize->add_option("--passes", flags.passes,
                       "Comma-separated; see list-passes (default: " +
                           fmt::format("{}", fmt::join(DefaultOptimization(), ",")) + ")");
  AddPassFlags(optimize, flags);
  optimize
      ->add_option("--combine-threshold", flags.combine_threshold,
                   "Most bytes of a combined collective (default 32MiB)")
      ->type_name("SIZE");
  CLI::App* explain =
      app.add_subcommand("explain", "Why a value is sharded so, and which collectives it needs");
  explain->add_option("IN", flags.explain.input, "HLO text; - is standard input")
      ->required()
      ->type_name("FILE");
  explain
      ->add_option("NAME", flags.explain.name,
                   "An instruction of IN, or a collective of its partitioned program")
      ->required();
  explain
      ->add_option("-n,--num-partitions", flags.explain.num_partitions,
                   "Number of devices (default: the module's)")
      ->check(Between(1, 1 << 20))
      ->type_name("N");
  explain->add_flag("--json", flags.explain.json, "JSON (gshard.explain/1)");
  explain->callback([&] { action = [&] { return RunExplain(flags.explain, flags.context); }; });
  CLI::App* list_ops = app.add_subcommand("list-ops", "What each layer knows of each opcode");
  list_ops->add_flag("--json", flags.json, "JSON (gshard.list_ops/1)");
  list_ops->callback([&] { action = [&] { return RunListOps(flags.json); }; });
  CLI::App* list = app.add_subcommand("list-passes", "The passes there are");
  list->add_flag("--json", flags.json, "JSON (gshard.list_passes/1)");
  list->callback([&] { action = [&] { return ListPasses(flags); }; });
  return RunProgram(app, argc, argv, [&] { return action(); });
}
