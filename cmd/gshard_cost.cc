// gshard-cost: what a program costs on each device of a mesh.

#include <fmt/format.h>

#include <optional>

#include "cmd/cli/program.h"
#include "core/analysis/partitioned.h"
#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/pass.h"
#include "core/report/cost_json.h"
#include "core/report/cost_text.h"
#include "core/report/quantity_text.h"

namespace gshard {
namespace {

struct Flags {
  std::string input;
  int64_t num_partitions = 0;
  std::string chip = "tpu-v3";
  std::string chip_file;
  std::string limit;
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

// Propagates and partitions in place; returns the FLOPs of the program as a whole.
Expected<double> PartitionForCost(Module& module) {
  PassContext context;
  const Pass* propagate[] = {FindPass("inline-calls"), FindPass("propagate")};
  if (auto done = RunPasses(module, propagate, context, {}); !done) return Fail(done.error());
  double useful = TotalFlops(module);
  const Pass* partition[] = {FindPass("partition")};
  if (auto done = RunPasses(module, partition, context, {}); !done) return Fail(done.error());
  return useful;
}

// What is wrong with the input; returns the exit code.
int Refuse(const Flags& flags, const Diagnostic& error) {
  if (flags.json) PrintErrorJson(error, "gshard.cost/1");
  return ReportError(error);
}

int Run(const Flags& flags) {
  Expected<Chip> chip = ReadChip(flags);
  if (!chip) return flags.chip_file.empty() ? UsageError(chip.error()) : ReportError(chip.error());
  std::optional<int64_t> limit;
  if (!flags.limit.empty()) {
    Expected<int64_t> bytes = ParseByteSize(flags.limit);
    if (!bytes) return UsageError(bytes.error());
    limit = *bytes;
  }
  auto module = ReadModule(flags.input);
  if (!module) return Refuse(flags, module.error());
  if (flags.num_partitions > 0) (*module)->header().num_partitions = flags.num_partitions;
  std::optional<double> useful;
  bool partitioned =
      flags.partitioned.empty() ? IsPartitioned(**module) : flags.partitioned == "yes";
  if (!partitioned && (*module)->DeviceCount() > 1) {
    Expected<double> flops = PartitionForCost(**module);
    if (!flops) return Refuse(flags, flops.error());
    useful = *flops;
  }
  CostOptions options;
  options.useful_flops = useful;
  Expected<CostReport> report = EstimateCost(**module, *chip, options);
  if (!report) return UsageError(report.error());
  std::string text = flags.json ? CostAsJson(**module, *report) : CostAsText(**module, *report);
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
  line.Add("-o,--output", flags.output, "Where the report goes; - is standard output",
           {.type = "FILE"});
  line.Add("--partitioned", flags.partitioned,
           "Is IN the program of one device already? (default: found out)",
           {.type = "yes|no", .one_of = {"yes", "no"}});
  line.Add("--chip", flags.chip,
           fmt::format("One of {} (default: tpu-v3)", fmt::join(BuiltInChipNames(), ", ")),
           {.type = "NAME"});
  line.Add("--chip-file", flags.chip_file, "Chip description in JSON (docs/cost.md)",
           {.type = "FILE"});
  line.Add("--limit", flags.limit,
           "Memory limit per device, such as 16GiB: exit 3 if the peak is over it",
           {.type = "SIZE"});
  line.AddSwitch("--json", flags.json, "JSON (gshard.cost/1) instead of text");
  return line.Run(argc, argv, [&] { return Run(flags); });
}
