// gshard-cost: what a program costs on each device of a mesh.

#include <fmt/format.h>

#include <optional>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/cost/memory/global_tensors.h"
#include "core/cost/useful_flops.h"
#include "core/report/cost_json.h"
#include "core/report/cost_text.h"
#include "core/report/quantity_text.h"
#include "core/spmd/per_device_module.h"

namespace gshard {
namespace {

struct Flags {
  std::string input;
  int64_t num_partitions = 0;
  std::string chip = "tpu-v3";
  std::string chip_file;
  std::string limit;
  std::string tiling = "layout";
  std::string combine_threshold;
  int64_t top = 0;
  std::string output = "-";
  bool json = false;
  std::string partitioned;
};

Expected<Chip> ReadChip(const Flags& flags) {
  if (flags.chip_file.empty()) return BuiltInChip(flags.chip);
  Expected<std::string> text = ReadFile(flags.chip_file);
  if (!text) return Fail(std::move(text.error()));
  return ParseChip(*text, flags.chip_file);
}

// Makes the program of one device of `module`, in place, unless it is for one device anyway;
// returns the FLOPs of the program as a whole.
Expected<std::optional<double>> PartitionForCost(Module& module, int64_t num_partitions,
                                                 GlobalTensors& tensors) {
  auto devices = ReadDevices(module, num_partitions);
  if (!devices) return Fail(devices.error());
  if (devices->partitions == 1) return std::nullopt;
  std::optional<double> useful;
  PassContext context;
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

MemoryOptions MemoryOptionsOf(const Flags& flags) {
  MemoryOptions options;
  options.tiling = flags.tiling == "none"  ? Tiling::kDense
                   : flags.tiling == "tpu" ? Tiling::kTpu
                                           : Tiling::kLayout;
  if (!flags.combine_threshold.empty())
    options.combine_bytes = ByteSizeOf("--combine-threshold", flags.combine_threshold);
  return options;
}

// What is wrong with the input; returns the exit code.
int Refuse(const Flags& flags, const Diagnostic& error) {
  if (flags.json) PrintErrorJson(error, "gshard.cost/1");
  return ReportError(error);
}

int Run(const Flags& flags) {
  Expected<Chip> chip = ReadChip(flags);
  if (!chip && flags.chip_file.empty()) {
    throw FlagError("--chip", chip.error().message + "; " + chip.error().hint);
  }
  if (!chip) return Refuse(flags, chip.error());
  std::optional<int64_t> limit;
  if (!flags.limit.empty()) limit = ByteSizeOf("--limit", flags.limit);
  auto module = ReadModule(flags.input);
  if (!module) return Refuse(flags, module.error());
  if (auto bounded = CheckBoundedSizes(**module); !bounded) return Refuse(flags, bounded.error());
  std::optional<double> useful;
  GlobalTensors tensors;
  bool partitioned =
      flags.partitioned.empty() ? IsPartitioned(**module) : flags.partitioned == "yes";
  if (partitioned) {
    if (flags.num_partitions > 0) (*module)->header().num_partitions = flags.num_partitions;
  } else {
    auto flops = PartitionForCost(**module, flags.num_partitions, tensors);
    if (!flops) return Refuse(flags, flops.error());
    useful = *flops;
  }
  CostOptions options;
  options.useful_flops = useful;
  options.memory = MemoryOptionsOf(flags);
  Expected<CostReport> report = EstimateCost(**module, *chip, options);
  if (!report) return UsageError(report.error());
  if (limit) {
    report->memory.limit_bytes = *limit;
    report->memory.limit_name.clear();
  }
  DescribeTensors(**module, tensors, report->memory);
  auto top = static_cast<size_t>(flags.top);
  std::string text = flags.json ? CostAsJson(**module, *report, top)
                                : CostAsText(**module, *report, top > 0 ? top : 12);
  if (auto written = WriteFile(flags.output, text); !written) return ReportError(written.error());
  if (limit && report->memory.peak_bytes > *limit) {
    fmt::print(stderr, "gshard-cost: over the limit: {} a device, allowed are {}\n",
               HumanBytes(static_cast<double>(report->memory.peak_bytes)),
               HumanBytes(static_cast<double>(*limit)));
    return kExitCheckFailed;
  }
  return kExitOk;
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using namespace gshard;
  Flags flags;
  CommandLine line("gshard-cost",
                   "Estimates time, traffic and memory per device.\n\nExample: gshard-cost "
                   "step.hlo --chip tpu-v3 --limit 16GiB");
  AddInputFlags(line, flags.input, flags.num_partitions);
  line.Add("-o,--output", flags.output, "Where the report goes (default: -, standard output)",
           {.type = "FILE"});
  line.Add("--partitioned", flags.partitioned,
           "Is IN the program of one device already? (default: found out)",
           {.type = "yes|no", .one_of = {"yes", "no"}});
  line.Add("--chip", flags.chip,
           fmt::format("One of {} (default: tpu-v3)", fmt::join(BuiltInChipNames(), ", ")),
           {.type = "NAME"});
  line.Add("--chip-file", flags.chip_file,
           "Chip description in JSON, as docs/cost.md tells it (default: --chip)",
           {.type = "FILE"});
  line.Add("--limit", flags.limit,
           "Memory limit per device, such as 16GiB: exit 3 if the peak is over it (default: none)",
           {.type = "SIZE"});
  line.Add("--top", flags.top,
           "Rows of what is alive at the memory peak (default: 12, in JSON all), such as 30",
           {.type = "N", .between = {{1, INT32_MAX}}});
  line.Add("--tiling", flags.tiling,
           "Padding of arrays in memory: none, that of the text's tiled layouts, or tpu: T(8,128) "
           "where there is none (default: layout)",
           {.type = "none|layout|tpu", .one_of = {"none", "layout", "tpu"}});
  line.Add(
      "--combine-threshold", flags.combine_threshold,
      "Most bytes of all-reduces that the compiler makes one, such as 30MiB (default: no limit)",
      {.type = "SIZE"});
  line.AddSwitch("--json", flags.json, "JSON (gshard.cost/1) instead of text");
  return line.Run(argc, argv, [&] { return Run(flags); });
}
