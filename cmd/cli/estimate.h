// What gshard-cost and its subcommands share: the flags that say how costs are estimated, and the
// way from a module as the user wrote it to its cost report.
#ifndef GSHARD_CMD_CLI_ESTIMATE_H_
#define GSHARD_CMD_CLI_ESTIMATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/cli/cost_options.h"
#include "cmd/cli/flags.h"
#include "cmd/cli/propagation_flags.h"
#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"
#include "core/report/collective_report.h"
#include "core/report/tried_advice.h"
#include "core/report/xla/as_xla.h"
#include "ir/module.h"

namespace gshard {

inline constexpr const char* kDefaultChip = "tpu-v3";

struct ChipFlags {
  std::string name = kDefaultChip;  // empty before flags are read: the command chooses a default
  std::string file;
  std::string stack = "jax";
};

struct EstimateFlags {
  int64_t num_partitions = 0;
  std::string partitioned;  // "yes", "no"; empty: found out
  ChipFlags chip;
  CostOptionFlags cost;
  std::string tiling;  // "none", "layout", "tpu"; empty: the chip's
  std::string combine_threshold;
  bool as_xla = false;      // partitioned with the collectives of XLA's partitioner
  bool beside_xla = false;  // not a flag: Estimate::as_xla is wanted
  bool optimize = false;    // first what `gshard-opt optimize` does
  PropagationFlags propagation;
};

inline constexpr const char* kAsXlaHelp =
    "With the collectives of XLA's partitioner: sums whole, not scattered, operations where their "
    "own sharding says";

// All that says how much memory a program takes: the chip, attention, padding, joined all-reduces.
void AddMemoryFlags(const Command& command, EstimateFlags& flags);

// These, and what says how long it takes: all that says how a program is priced.
void AddPricingFlags(const Command& command, EstimateFlags& flags);

// All but --num-partitions, which stands beside IN.
void AddEstimateFlags(const Command& command, EstimateFlags& flags);

// Throws FlagError for a name that is no chip's, and for a stack that the chip does not run.
Expected<Chip> ReadChip(const ChipFlags& flags);
// What --chip-file names.
Expected<Chip> ReadChipFile(const std::string& path);

// What the flags say, as options. Throw FlagError.
CostOptions CostOptionsFor(const EstimateFlags& flags);
DeviceProgramOptions ProgramOptionsFor(const EstimateFlags& flags);

struct Estimate {
  std::unique_ptr<Module> module;  // of one device; the report points into it
  CostReport report;
  // Of a program that was partitioned here, if asked for: its collectives with their recorded
  // causes, and the full rematerialisations. Points into `recorder`.
  std::optional<CollectiveReport> collectives;
  std::unique_ptr<ExplainRecorder> recorder;
  // Of a program that was partitioned here, if EstimateFlags::beside_xla: what XLA's partitioner
  // sends, where that is something else, and what it has whole on every device.
  AsXla as_xla;
  std::vector<TriedAdvice> advice;      // if asked for: all that helps, the best first
  std::vector<Diagnostic> diagnostics;  // warnings and notes of propagation
};

// What is told of the collectives of a program that is partitioned here.
enum class Causes : uint8_t {
  kNone,
  kRecorded,
  kAdvised,  // and what helps: partitions and prices some times more
};

// Partitions `module` unless it is, and estimates its cost. With kAdvised suggestions are tried, of
// large programs fewer unless `tries_all`. `limit`: of memory, for advice; nothing: the chip's. May
// run for many modules at once, each with a context of its own.
Expected<Estimate> EstimateModule(std::unique_ptr<Module> module, const Chip& chip,
                                  const EstimateFlags& flags, Causes causes = Causes::kNone,
                                  std::optional<int64_t> limit = std::nullopt,
                                  bool tries_all = false);

// Prints why there is no estimate, with `json` as a document of the schema too; returns the exit
// code: bad input, or bad usage for flags that EstimateCost refuses.
int ReportEstimateError(const Diagnostic& error, bool json, std::string_view schema);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_ESTIMATE_H_
