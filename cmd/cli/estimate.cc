// See estimate.h.

#include "cmd/cli/estimate.h"

#include <fmt/format.h>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/cost/memory/global_tensors.h"
#include "core/cost/useful_flops.h"
#include "core/explain/recorder.h"
#include "core/report/annotation_advice.h"
#include "core/report/device_model.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/inline_calls.h"

namespace gshard {
namespace {

// With calls inlined: to be partitioned they have to be written out.
constexpr int64_t kMostInstructions = 1'000'000;

// Full rematerialisations that advice is looked for: a page shows three findings.
constexpr size_t kMostAdvice = 3;

// Makes the program of one device of `module`, in place, unless it is for one device anyway;
// returns the FLOPs of the program as a whole.
Expected<std::optional<double>> PartitionForCost(Module& module, int64_t num_partitions,
                                                 GlobalTensors& tensors, PassContext& context) {
  auto devices = ReadDevices(module, num_partitions);
  if (!devices) return Fail(devices.error());
  if (devices->partitions == 1) return std::nullopt;
  if (auto small = CheckInlinedSize(module, kMostInstructions); !small) {
    return Fail(std::move(small.error()));
  }
  std::optional<double> useful;
  PerDeviceOptions way;
  way.num_partitions = num_partitions;
  way.after_propagation = [&](Module& whole) {
    useful = TotalFlops(whole);
    tensors.Record(whole);
    return Expected<void>();
  };
  if (auto done = MakePerDeviceModule(module, context, way); !done) return Fail(done.error());
  return useful;
}

Expected<void> Optimize(Module& module) {
  PassContext context;
  return RunPasses(module, DefaultOptimizationPasses(), context, {});
}

MemoryOptions MemoryOptionsOf(const EstimateFlags& flags, const Chip& chip) {
  MemoryOptions options = MemoryOptionsOf(chip);
  options.tiling = flags.tiling == "none"  ? Tiling::kDense
                   : flags.tiling == "tpu" ? Tiling::kTpu
                                           : Tiling::kLayout;
  if (!flags.combine_threshold.empty())
    options.combine_bytes = ByteSizeOf("--combine-threshold", flags.combine_threshold);
  return options;
}

}  // namespace

void AddEstimateFlags(const Command& command, EstimateFlags& flags) {
  command.Add("--partitioned", flags.partitioned,
              "Is IN the program of one device already? (default: found out)",
              {.type = "yes|no", .one_of = {"yes", "no"}});
  AddPropagationFlags(command, flags.propagation);
  command.Add("--chip", flags.chip,
              fmt::format("One of {} (default: tpu-v3)", fmt::join(BuiltInChipNames(), ", ")),
              {.type = "NAME", .suggested = BuiltInChipNames()});
  command.Add("--chip-file", flags.chip_file,
              "Chip description in JSON, as docs/cost.md tells it (default: --chip)",
              {.type = "FILE"});
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

Expected<Estimate> EstimateModule(std::unique_ptr<Module> module, const Chip& chip,
                                  const EstimateFlags& flags, Causes causes) {
  if (auto bounded = CheckBoundedSizes(*module); !bounded) return Fail(bounded.error());
  Estimate estimate;
  CostOptions options = ReadCostOptions(flags.cost);
  options.memory = MemoryOptionsOf(flags, chip);
  GlobalTensors tensors;
  const bool partitioned =
      flags.partitioned.empty() ? IsPartitioned(*module) : flags.partitioned == "yes";
  if (partitioned) {
    if (flags.num_partitions > 0) module->header().num_partitions = flags.num_partitions;
    if (flags.optimize) {
      if (auto done = Optimize(*module); !done) return Fail(std::move(done.error()));
    }
  } else {
    if (causes != Causes::kNone) estimate.recorder = std::make_unique<ExplainRecorder>();
    const std::unique_ptr<Module> written = causes == Causes::kAdvised ? module->Clone() : nullptr;
    PassContext context;
    context.recorder = estimate.recorder.get();
    ReadPropagationFlags(flags.propagation, context.propagation);
    auto flops = PartitionForCost(*module, flags.num_partitions, tensors, context);
    if (!flops) return Fail(flops.error());
    options.useful_flops = *flops;
    if (flags.optimize) {
      if (auto done = Optimize(*module); !done) return Fail(std::move(done.error()));
    }
    if (causes != Causes::kNone) {
      estimate.collectives = MakeCollectiveReport(*module, context.recorder);
    }
    if (written != nullptr) {
      PerDeviceOptions way;
      way.num_partitions = flags.num_partitions;
      AdviseAnnotations(*written, context, way, *estimate.collectives, kMostAdvice);
    }
    estimate.diagnostics = std::move(context.diagnostics);
  }
  if (auto clean = CleanForCost(*module); !clean) return Fail(std::move(clean.error()));
  Expected<CostReport> report = EstimateCost(*module, chip, options);
  if (!report) return Fail(std::move(report.error()));
  DescribeTensors(*module, tensors, report->memory);
  estimate.module = std::move(module);
  estimate.report = std::move(*report);
  return estimate;
}

int ReportEstimateError(const Diagnostic& error, bool json, std::string_view schema) {
  if (error.code == "E-COST-003" || error.code == "E-COST-004") return UsageError(error);
  if (json) PrintErrorJson(error, schema);
  return ReportError(error);
}

}  // namespace gshard
