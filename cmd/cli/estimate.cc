// See estimate.h.

#include "cmd/cli/estimate.h"

#include <fmt/format.h>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/report/annotation_advice.h"
#include "core/spmd/per_device_module.h"

namespace gshard {
namespace {

// Full rematerialisations that advice is looked for: a page shows three findings.
constexpr size_t kMaxAdvice = 3;

MemoryOptions MemoryOptionsFor(const EstimateFlags& flags, const Chip& chip) {
  MemoryOptions options = MemoryOptionsOf(chip);
  options.tiling = flags.tiling == "none"  ? Tiling::kDense
                   : flags.tiling == "tpu" ? Tiling::kTpu
                                           : Tiling::kLayout;
  if (!flags.combine_threshold.empty())
    options.combine_bytes = ByteSizeOf("--combine-threshold", flags.combine_threshold);
  return options;
}

}  // namespace

void AddChipFlags(const Command& command, EstimateFlags& flags) {
  command.Add("--chip", flags.chip,
              fmt::format("One of {} (default: tpu-v3)", fmt::join(BuiltInChipNames(), ", ")),
              {.type = "NAME"});
  command.Suggest("--chip", BuiltInChipNames());
  command.Add("--chip-file", flags.chip_file,
              "Chip description in JSON, as docs/cost.md tells it (default: --chip)",
              {.type = "FILE"});
}

void AddEstimateFlags(const Command& command, EstimateFlags& flags) {
  command.Add("--partitioned", flags.partitioned,
              "Is IN the program of one device already? (default: found out)",
              {.type = "yes|no", .one_of = {"yes", "no"}});
  AddPropagationFlags(command, flags.propagation);
  AddChipFlags(command, flags);
  AddCostOptionFlags(command, flags.cost);
  command.Add("--tiling", flags.tiling,
              "Padding of arrays in memory: none, that of the text's tiled layouts, or tpu: "
              "T(8,128) where there is none (default: layout)",
              {.type = "none|layout|tpu", .one_of = {"none", "layout", "tpu"}});
  command.Add(
      "--combine-threshold", flags.combine_threshold,
      "Most bytes of all-reduces that the compiler makes one, such as 30MiB (default: the chip's)",
      {.type = "SIZE"});
  command.AddSwitch("--optimize", flags.optimize,
                    "The program of one device as `gshard-opt optimize` leaves it");
}

Expected<Chip> ReadChip(const EstimateFlags& flags) {
  if (flags.chip_file.empty()) {
    Expected<Chip> chip = BuiltInChip(flags.chip);
    if (!chip) throw FlagError("--chip", chip.error());
    return chip;
  }
  Expected<std::string> text = ReadFile(flags.chip_file);
  if (!text) return Fail(std::move(text.error()));
  return ParseChip(*text, flags.chip_file);
}

CostOptions CostOptionsFor(const EstimateFlags& flags, const Chip& chip) {
  CostOptions options = ReadCostOptions(flags.cost);
  options.memory = MemoryOptionsFor(flags, chip);
  return options;
}

DeviceProgramOptions ProgramOptionsFor(const EstimateFlags& flags) {
  DeviceProgramOptions options;
  options.num_partitions = flags.num_partitions;
  if (!flags.partitioned.empty()) options.is_partitioned = flags.partitioned == "yes";
  options.optimize = flags.optimize;
  ReadPropagationFlags(flags.propagation, options.propagation);
  return options;
}

Expected<Estimate> EstimateModule(std::unique_ptr<Module> module, const Chip& chip,
                                  const EstimateFlags& flags, Causes causes) {
  Estimate estimate;
  const CostOptions cost = CostOptionsFor(flags, chip);
  DeviceProgramOptions options = ProgramOptionsFor(flags);
  options.records_tensors = true;
  options.is_partitioned = options.is_partitioned.value_or(IsPartitioned(*module));
  if (*options.is_partitioned) causes = Causes::kNone;
  if (causes != Causes::kNone) {
    estimate.recorder = std::make_unique<ExplainRecorder>();
    options.recorder = estimate.recorder.get();
  }
  const std::unique_ptr<Module> written = causes == Causes::kAdvised ? module->Clone() : nullptr;
  Expected<DeviceProgram> program = MakeDeviceProgram(std::move(module), options);
  if (!program) return Fail(std::move(program.error()));
  if (causes != Causes::kNone) {
    estimate.collectives = MakeCollectiveReport(*program->module, options.recorder);
    estimate.collectives->propagated_as = program->propagated_as;
  }
  if (written != nullptr) {
    PassContext context;
    context.propagation = options.propagation;
    PerDeviceOptions way;
    way.num_partitions = flags.num_partitions;
    AdviseAnnotations(*written, context, way, *estimate.collectives, kMaxAdvice);
  }
  estimate.diagnostics = std::move(program->diagnostics);
  Expected<CostReport> report = ReportCost(*program, chip, cost);
  if (!report) return Fail(std::move(report.error()));
  estimate.module = std::move(program->module);
  estimate.report = std::move(*report);
  estimate.report.propagation = ModeName(program->propagated_as);
  return estimate;
}

int ReportEstimateError(const Diagnostic& error, bool json, std::string_view schema) {
  if (error.code == "E-COST-003" || error.code == "E-COST-004") return UsageError(error);
  if (json) PrintErrorJson(error, schema);
  return ReportError(error);
}

}  // namespace gshard
