// See cost_diff.h.

#include "cmd/cli/cost_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cmd/cli/program.h"
#include "core/report/ci/diff_conditions.h"
#include "core/report/cost_diff.h"
#include "core/report/cost_json.h"
#include "ir/source_text.h"

namespace gshard {
namespace {

// A side of the comparison, as it was given.
struct Side {
  std::shared_ptr<const SourceText> source;
  std::optional<CostFigures> report;  // if it is one
};

Expected<Side> ReadSide(const std::string& path) {
  auto source = SourceText::Open(path);
  if (!source) return Fail(std::move(source.error()));
  Side side{std::move(*source), std::nullopt};
  if (!IsCostDocument(side.source->text())) return side;
  auto figures = ReadCostFigures(side.source->text(), side.source->name());
  if (!figures) return Fail(std::move(figures.error()));
  side.report = std::move(*figures);
  return side;
}

// What --chip says; without it, a program is priced for the chip of the report that it is compared
// with, if that is built in.
ChipFlags ChipFor(const ChipFlags& given, const Side& before, const Side& after) {
  const bool is_theirs = before.report && after.report && before.report->chip == given.name &&
                         after.report->chip == given.name;
  if (before.report && after.report && !is_theirs && (!given.name.empty() || !given.file.empty())) {
    throw FlagError(given.name.empty() ? "--chip-file" : "--chip",
                    "both sides are reports, which are of their own chips");
  }
  if (!given.name.empty()) return given;
  ChipFlags flags = given;
  flags.name = kDefaultChip;
  const std::vector<std::string> known = BuiltInChipNames();
  for (const Side* side : {&before, &after}) {
    if (side->report && std::ranges::count(known, side->report->chip) > 0) {
      flags.name = side->report->chip;
    }
  }
  return flags;
}

// Of a report as it stands, of a program by estimating it.
Expected<CostFigures> FiguresOf(Side side, const CostDiffFlags& flags, const Chip& chip) {
  if (side.report) return std::move(*side.report);
  const std::string name = side.source->name();
  auto module = ReadModule(std::move(side.source), flags.estimate.num_partitions);
  if (!module) return Fail(std::move(module.error()));
  Expected<Estimate> estimate = EstimateModule(std::move(*module), chip, flags.estimate);
  if (!estimate) return Fail(std::move(estimate.error()));
  return ReadCostFigures(CostAsJson(*estimate->module, estimate->report), name);
}

int RunCostDiff(const CostDiffFlags& flags) {
  constexpr const char* kSchema = "gshard.diff/1";
  if (flags.before == "-" && flags.after == "-") {
    throw FlagError("AFTER", "BEFORE is standard input already");
  }
  std::vector<DiffCondition> conditions;
  if (!flags.check.empty()) {
    Expected<std::vector<DiffCondition>> read = ParseDiffConditions(flags.check);
    if (!read) throw FlagError("--check", read.error());
    conditions = std::move(*read);
  }
  Expected<Side> first = ReadSide(flags.before);
  if (!first) return ReportEstimateError(first.error(), flags.json, kSchema);
  Expected<Side> second = ReadSide(flags.after);
  if (!second) return ReportEstimateError(second.error(), flags.json, kSchema);
  Expected<Chip> chip = ReadChip(ChipFor(flags.estimate.chip, *first, *second));
  if (!chip) return ReportEstimateError(chip.error(), flags.json, kSchema);
  Expected<CostFigures> before = FiguresOf(*std::move(first), flags, *chip);
  if (!before) return ReportEstimateError(before.error(), flags.json, kSchema);
  Expected<CostFigures> after = FiguresOf(*std::move(second), flags, *chip);
  if (!after) return ReportEstimateError(after.error(), flags.json, kSchema);
  const CostDiff diff = DiffCosts(flags.before, std::move(*before), flags.after, std::move(*after));
  const std::vector<CiCheck> checks = CheckDiff(diff, conditions);
  const std::vector<FailedCheck> failed = FailedChecks(checks);
  const auto top = static_cast<size_t>(flags.top);
  const std::string text = flags.json       ? CostDiffAsJson(diff, failed)
                           : flags.markdown ? CostDiffAsMarkdown(diff, top)
                                            : CostDiffAsText(diff, top);
  if (auto written = WriteFile(flags.output, text); !written) return ReportError(written.error());
  CiReport report{"gshard-cost diff", "", flags.after, checks, CostDiffAsMarkdown(diff)};
  if (auto told = WriteCiReport(flags.ci, std::move(report)); !told) {
    return ReportError(told.error());
  }
  for (const FailedCheck& check : failed) {
    fmt::print(stderr, "gshard-cost: {} does not hold: {}\n", check.key, check.message);
  }
  return failed.empty() ? kExitOk : kExitCheckFailed;
}

void AddFlags(const Command& command, CostDiffFlags& flags) {
  command.Add("BEFORE", flags.before,
              "HLO text, or what gshard-cost --json wrote; - is standard input (required)",
              {.type = "FILE", .required = true});
  command.Add("AFTER", flags.after, "The same (required)", {.type = "FILE", .required = true});
  command.Add("-n,--num-partitions", flags.estimate.num_partitions,
              "Number of devices (default: the module's)",
              {.type = "N", .between = {{1, 1 << 20}}});
  command.Add("-o,--output", flags.output,
              "Where the comparison goes (default: -, standard output)",
              {.type = "FILE", .is_output = true});
  flags.estimate.chip.name.clear();
  AddEstimateFlags(command, flags.estimate);
  command.AddSwitch("--as-xla", flags.estimate.as_xla, kAsXlaHelp);
  command.Add("--top", flags.top, "Most rows of a list, such as 30 (default: 12, in JSON all)",
              {.type = "N", .between = {{1, INT32_MAX}}});
  command.Add("--check", flags.check,
              "What the change may cost: exit 3 if it costs more, such as "
              "'step_time<+2%,peak<+1%,collectives==' (default: anything)",
              {.type = "CONDITIONS"});
  command.AddSwitch("--json", flags.json, "JSON (gshard.diff/1) instead of text");
  command.AddSwitch("--markdown", flags.markdown, "Markdown, for a comment on a change",
                    {"--json"});
  AddCiFlags(command, flags.ci);
}

}  // namespace

void AddCostDiff(CommandLine& line, CostDiffFlags& flags) {
  line.AddSubcommand(
      "diff", "What changed from one program, or report, to another",
      "gshard-cost diff main.json step.hlo --markdown", [&flags] { return RunCostDiff(flags); },
      [&flags](const Command& command) { AddFlags(command, flags); });
}

}  // namespace gshard
