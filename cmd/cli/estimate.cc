// See estimate.h.

#include "cmd/cli/estimate.h"

#include <fmt/format.h>

#include <algorithm>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/reduce/steps.h"
#include "core/report/annotation_advice.h"
#include "core/spmd/per_device_module.h"

namespace gshard {
namespace {

// Full rematerialisations that advice is looked for: a page shows three findings.
constexpr size_t kMaxAdvice = 3;
constexpr size_t kTrialsOfOneAdvice = 3;
// Instructions, copies of the program summed, that are priced for advice unless all of it is asked
// for: about a second.
constexpr int64_t kMaxTriedInstructions = 50'000;
constexpr int64_t kMaxTrials = 32;

size_t TrialsFor(int64_t instructions, bool tries_all) {
  if (tries_all) return kMaxTrials;
  return static_cast<size_t>(
      std::min(kMaxTrials, kMaxTriedInstructions / std::max<int64_t>(1, instructions)));
}

size_t AdviceFor(size_t trials) { return std::min(kMaxAdvice, trials / kTrialsOfOneAdvice); }

void AddChipFlags(const Command& command, ChipFlags& flags) {
  command.Add("--chip", flags.name,
              fmt::format("One of {} (default: {})", fmt::join(BuiltInChipNames(), ", "),
                          flags.name.empty() ? "that of a report on the other side, else tpu-v3"
                                             : flags.name),
              {.type = "NAME"});
  command.Suggest("--chip", BuiltInChipNames());
  command.Add("--chip-file", flags.file,
              "Chip description in JSON, as docs/chips.md tells it (default: --chip)",
              {.type = "FILE"});
  command.Add("--stack", flags.stack,
              "Who makes the kernels of a GPU: jax (XLA), pytorch (each call is one; for "
              "torch.compile, too), megatron (Transformer Engine's) (default: jax)",
              {.type = "jax|pytorch|megatron", .one_of = {"jax", "pytorch", "megatron"}});
}

}  // namespace

void AddMemoryFlags(const Command& command, EstimateFlags& flags) {
  AddChipFlags(command, flags.chip);
  AddAttentionFlags(command, flags.cost);
  command.Add("--tiling", flags.tiling,
              "Padding of arrays in memory: none, that of the text's tiled layouts, or tpu: "
              "T(8,128) where there is none (default: tpu for TPUs, else layout)",
              {.type = "none|layout|tpu", .one_of = {"none", "layout", "tpu"}});
  command.Add(
      "--combine-threshold", flags.combine_threshold,
      "Most bytes of all-reduces that the compiler makes one, such as 30MiB (default: the chip's)",
      {.type = "SIZE"});
}

void AddPricingFlags(const Command& command, EstimateFlags& flags) {
  AddMemoryFlags(command, flags);
  AddTimeFlags(command, flags.cost);
  command.AddSwitch("--optimize", flags.optimize,
                    "The program of one device as `gshard-opt optimize` leaves it");
}

void AddEstimateFlags(const Command& command, EstimateFlags& flags) {
  command.Add("--partitioned", flags.partitioned,
              "Is IN the program of one device already? (default: found out)",
              {.type = "yes|no", .one_of = {"yes", "no"}});
  AddPropagationFlags(command, flags.propagation);
  AddPricingFlags(command, flags);
}

Expected<Chip> ReadChip(const ChipFlags& flags) {
  Expected<Chip> chip = flags.file.empty() ? BuiltInChip(flags.name) : ReadChipFile(flags.file);
  if (!chip && flags.file.empty()) throw FlagError("--chip", chip.error());
  if (!chip) return chip;
  if (auto set = SetStack(*chip, flags.stack); !set) throw FlagError("--stack", set.error());
  return chip;
}

Expected<Chip> ReadChipFile(const std::string& path) {
  Expected<std::string> text = ReadFile(path);
  if (!text) return Fail(std::move(text.error()));
  return ParseChip(*text, path);
}

CostOptions CostOptionsFor(const EstimateFlags& flags) {
  CostOptions options = ReadCostOptions(flags.cost);
  if (flags.tiling == "none") options.tiling = Tiling::kDense;
  if (flags.tiling == "layout") options.tiling = Tiling::kLayout;
  if (flags.tiling == "tpu") options.tiling = Tiling::kTpu;
  if (!flags.combine_threshold.empty()) {
    options.combine_bytes = ByteSizeOf("--combine-threshold", flags.combine_threshold);
  }
  return options;
}

DeviceProgramOptions ProgramOptionsFor(const EstimateFlags& flags) {
  DeviceProgramOptions options;
  options.num_partitions = flags.num_partitions;
  if (!flags.partitioned.empty()) options.is_partitioned = flags.partitioned == "yes";
  options.optimize = flags.optimize;
  options.as_xla = flags.as_xla;
  ReadPropagationFlags(flags.propagation, options.propagation);
  return options;
}

Expected<Estimate> EstimateModule(std::unique_ptr<Module> module, const Chip& chip,
                                  const EstimateFlags& flags, Causes causes,
                                  std::optional<int64_t> limit, bool tries_all) {
  Estimate estimate;
  const CostOptions cost = CostOptionsFor(flags);
  DeviceProgramOptions options = ProgramOptionsFor(flags);
  options.records_tensors = true;
  options.is_partitioned = options.is_partitioned.value_or(IsPartitioned(*module));
  const size_t trials =
      causes == Causes::kAdvised ? TrialsFor(reduce::CountInstructions(*module), tries_all) : 0;
  const std::unique_ptr<Module> written = trials > 0 ? module->Clone() : nullptr;
  const bool lists_own = flags.as_xla && flags.beside_xla;  // rematerialisations, which are XLA's
  if (lists_own && causes == Causes::kNone) causes = Causes::kRecorded;
  if (*options.is_partitioned) causes = Causes::kNone;
  if (causes != Causes::kNone) {
    estimate.recorder = std::make_unique<ExplainRecorder>();
    options.recorder = estimate.recorder.get();
  }
  std::unique_ptr<Module> propagated;
  if (flags.beside_xla && !flags.as_xla && !flags.optimize) {
    options.after_propagation = [&](const Module& whole) {
      propagated = whole.Clone();
      return Expected<void>();
    };
  }
  Expected<DeviceProgram> program = MakeDeviceProgram(std::move(module), options);
  if (!program) return Fail(std::move(program.error()));
  options.after_propagation = nullptr;
  if (propagated != nullptr) {
    AsXlaTrials tried{written.get(), options.propagation, {}, AdviceFor(trials)};
    tried.way.num_partitions = flags.num_partitions;
    auto as_xla = CompareAsXla(*propagated, *program->module, tried);
    if (!as_xla) return Fail(std::move(as_xla.error()));
    estimate.as_xla = std::move(*as_xla);
    propagated = nullptr;
  }
  if (causes != Causes::kNone) {
    estimate.collectives = MakeCollectiveReport(*program->module, options.recorder);
    estimate.collectives->propagated_as = program->propagated_as;
  }
  if (causes == Causes::kAdvised && written != nullptr) {
    PassContext context;
    context.propagation = options.propagation;
    if (flags.as_xla) context.partition.policies = PartitionPolicies::AsXla();
    PerDeviceOptions way;
    way.num_partitions = flags.num_partitions;
    AdviseAnnotations(*written, context, way, *estimate.collectives, AdviceFor(trials));
  }
  if (lists_own && estimate.collectives) {
    estimate.as_xla.rematerializations =
        RematerializationsOf(*program->module, *estimate.collectives);
  }
  estimate.diagnostics = std::move(program->diagnostics);
  Expected<CostReport> report = ReportCost(*program, chip, cost);
  if (!report) return Fail(std::move(report.error()));
  TellAttentionAsWritten(*program->module, chip, cost, *report);
  estimate.module = std::move(program->module);
  estimate.report = std::move(*report);
  estimate.report.propagation = ModeName(program->propagated_as);
  if (limit) {
    estimate.report.memory.limit_bytes = *limit;
    estimate.report.memory.limit_name.clear();
  }
  if (written != nullptr) {
    const CollectiveReport* collectives = estimate.collectives ? &*estimate.collectives : nullptr;
    estimate.advice =
        TryAdvice({*written, chip, options, cost, estimate.report, collectives}, trials);
  }
  return estimate;
}

int ReportEstimateError(const Diagnostic& error, bool json, std::string_view schema) {
  if (error.code == "E-COST-003" || error.code == "E-COST-004") return UsageError(error);
  if (json) PrintErrorJson(error, schema);
  return ReportError(error);
}

}  // namespace gshard
