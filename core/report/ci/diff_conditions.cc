// See diff_conditions.h.

#include "core/report/ci/diff_conditions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "core/report/budget.h"
#include "core/report/quantity_text.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

using Bound = DiffCondition::Bound;
using Relation = DiffCondition::Relation;

enum class Unit : uint8_t { kSeconds, kBytes, kFlops, kShare, kCount };

// Metrics that are one figure of a report.
struct TotalMetric {
  std::string_view name;
  std::string_view key;  // of CostDiff::totals
  Unit unit;
};
constexpr std::array kTotals = {
    TotalMetric{"step_time", "step_time_s", Unit::kSeconds},
    TotalMetric{"compute_time", "compute_time_s", Unit::kSeconds},
    TotalMetric{"exposed_communication", "exposed_communication_s", Unit::kSeconds},
    TotalMetric{"mfu", "mfu", Unit::kShare},
    TotalMetric{"flops", "flops_per_device", Unit::kFlops},
    TotalMetric{"hbm_traffic", "hbm_bytes_per_device", Unit::kBytes},
    TotalMetric{"peak", "peak_bytes", Unit::kBytes},
    TotalMetric{"arguments", "argument_bytes", Unit::kBytes},
    TotalMetric{"outputs", "output_bytes", Unit::kBytes},
    TotalMetric{"temporaries", "temp_bytes", Unit::kBytes},
};

Unit UnitOf(std::string_view metric) {
  for (const TotalMetric& total : kTotals) {
    if (total.name == metric) return total.unit;
  }
  return metric.starts_with("traffic") ? Unit::kBytes : Unit::kCount;
}

tl::unexpected<Diagnostic> Error(std::string_view condition, std::string problem,
                                 std::string hint) {
  return Fail(
      MakeError("E-COST-023", fmt::format("'{}': {}", condition, problem), std::move(hint)));
}

std::vector<std::string> MetricNames() {
  std::vector<std::string> names;
  for (const TotalMetric& total : kTotals) names.emplace_back(total.name);
  names.insert(names.end(), {"traffic", "collectives"});
  return names;
}

// A kind that does not exist would never occur, and the condition hold for ever. Axes are not known
// of what gshard-cost --json wrote: along one that neither program has, nothing is sent.
Expected<void> CheckKind(std::string_view condition, const std::string& kind) {
  const std::vector<std::string>& kinds = CollectiveKinds();
  if (std::ranges::find(kinds, kind) != kinds.end()) return {};
  return Error(condition, fmt::format("no collective is called '{}'", kind),
               DidYouMean(kind, kinds) + fmt::format("there are {}", fmt::join(kinds, ", ")));
}

Expected<void> CheckMetric(std::string_view condition, std::string_view metric) {
  const std::string_view family = metric.substr(0, metric.find('.'));
  const std::vector<std::string> names = MetricNames();
  const bool has_parts = family == "traffic" || family == "collectives";
  const bool is_whole = family.size() == metric.size();
  if (std::ranges::find(names, family) != names.end() &&
      (is_whole || (has_parts && family.size() + 1 < metric.size()))) {
    if (is_whole || family == "traffic") return {};
    return CheckKind(condition, std::string(metric.substr(family.size() + 1)));
  }
  std::string hint = DidYouMean(std::string(family), names,
                                [](const std::string& name) -> const std::string& { return name; });
  hint += "figures are ";
  for (const std::string& name : names) hint += name + ", ";
  return Error(condition, fmt::format("there is no figure '{}'", metric),
               hint + "traffic.AXIS and collectives.KIND");
}

// 1 of "s", 1024 of "KiB"; nothing of what is no unit of the figure.
std::optional<double> Factor(Unit unit, std::string_view name) {
  struct Row {
    Unit unit;
    std::string_view name;
    double factor;
  };
  static constexpr std::array kUnits = {
      Row{Unit::kSeconds, "s", 1},          Row{Unit::kSeconds, "ms", 1e-3},
      Row{Unit::kSeconds, "us", 1e-6},      Row{Unit::kBytes, "B", 1},
      Row{Unit::kBytes, "KiB", 1024},       Row{Unit::kBytes, "MiB", 1048576},
      Row{Unit::kBytes, "GiB", 1073741824}, Row{Unit::kBytes, "KB", 1e3},
      Row{Unit::kBytes, "MB", 1e6},         Row{Unit::kBytes, "GB", 1e9},
  };
  if (name.empty()) return 1;
  for (const Row& row : kUnits) {
    if (row.unit == unit && row.name == name) return row.factor;
  }
  return std::nullopt;
}

Expected<void> ReadBound(std::string_view text, DiffCondition& condition) {
  if (text.empty()) {
    if (condition.relation == Relation::kLess || condition.relation == Relation::kMore) {
      return Error(condition.text, "a bound is missing", "for example +2%, +16MiB, 10ms");
    }
    condition.bound = Bound::kBefore;
    return {};
  }
  const bool has_sign = text.front() == '+' || text.front() == '-';
  const double sign = text.front() == '-' ? -1 : 1;
  if (has_sign) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<size_t>(end - stop));
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return Error(condition.text, "the bound is no number", "for example +2%, +16MiB, 10ms");
  }
  const bool is_share_of_before = unit == "%" && has_sign;
  if (unit == "%" && !has_sign && UnitOf(condition.metric) != Unit::kShare) {
    return Error(condition.text, "a share of the figure before has a sign",
                 fmt::format("write +{}%", number));
  }
  if (unit == "%") {
    condition.value = sign * number / 100;
    condition.bound = is_share_of_before ? Bound::kShare : Bound::kAbsolute;
    return {};
  }
  const std::optional<double> factor = Factor(UnitOf(condition.metric), unit);
  if (!factor) {
    return Error(condition.text, fmt::format("'{}' is no unit of {}", unit, condition.metric),
                 "times have s, ms, us; bytes B, KiB, MiB, GiB; all of them %");
  }
  condition.value = sign * number * *factor;
  condition.bound = has_sign ? Bound::kChange : Bound::kAbsolute;
  return {};
}

Expected<DiffCondition> ParseCondition(std::string_view text) {
  DiffCondition condition;
  condition.text = text;
  const size_t at = text.find_first_of("<>=");
  if (at == std::string_view::npos) {
    return Error(text, "a relation is missing", "write step_time<+2% or collectives==");
  }
  condition.metric = text.substr(0, at);
  struct Row {
    std::string_view text;
    Relation relation;
  };
  static constexpr std::array kRelations = {
      Row{"<=", Relation::kAtMost}, Row{">=", Relation::kAtLeast}, Row{"==", Relation::kEqual},
      Row{"<", Relation::kLess},    Row{">", Relation::kMore},
  };
  const auto relation = std::ranges::find_if(
      kRelations, [&](const Row& row) { return text.substr(at).starts_with(row.text); });
  if (relation == kRelations.end()) {
    return Error(text, "'=' is no relation", "equal is written ==");
  }
  condition.relation = relation->relation;
  if (auto checked = CheckMetric(text, condition.metric); !checked) return Fail(checked.error());
  if (auto read = ReadBound(text.substr(at + relation->text.size()), condition); !read) {
    return Fail(read.error());
  }
  return condition;
}

// What a condition is about: figures by name.
std::vector<std::pair<std::string, BeforeAfter>> FiguresOf(const CostDiff& diff,
                                                           const std::string& metric) {
  for (const TotalMetric& total : kTotals) {
    if (total.name != metric) continue;
    for (const CostDiff::Total& row : diff.totals) {
      if (row.key == total.key) return {{metric, row.value}};
    }
  }
  if (metric.starts_with("traffic")) {
    BeforeAfter sum;
    for (const CostDiff::Traffic& row : diff.traffic) {
      if (metric != "traffic" && metric != "traffic." + row.axes) continue;
      sum.before += row.bytes_per_device.before;
      sum.after += row.bytes_per_device.after;
    }
    return {{metric, sum}};
  }
  std::map<std::string, BeforeAfter> by_kind;
  for (const auto& [key, row] : diff.before.collectives) {
    by_kind[std::get<0>(key)].before += row.count;
  }
  for (const auto& [key, row] : diff.after.collectives) {
    by_kind[std::get<0>(key)].after += row.count;
  }
  if (metric != "collectives") {
    return {{metric, by_kind[metric.substr(std::string_view("collectives.").size())]}};
  }
  std::vector<std::pair<std::string, BeforeAfter>> figures;
  for (const auto& [kind, counts] : by_kind) figures.emplace_back("collectives." + kind, counts);
  return figures;
}

double Allowed(const DiffCondition& condition, double before) {
  switch (condition.bound) {
    case Bound::kBefore:
      return before;
    case Bound::kShare:
      return before + condition.value * before;
    case Bound::kChange:
      return before + condition.value;
    case Bound::kAbsolute:
      return condition.value;
  }
  return before;
}

bool Holds(const DiffCondition& condition, const BeforeAfter& figure) {
  const double allowed = Allowed(condition, figure.before);
  // Figures that went through text may be off in the last digit.
  const double slack = 1e-12 * std::max(std::abs(allowed), std::abs(figure.after));
  const bool is_growth = condition.bound == Bound::kShare || condition.bound == Bound::kChange;
  const bool same = std::abs(figure.Change()) <= slack;
  switch (condition.relation) {
    case Relation::kLess:
      return (is_growth && condition.value >= 0 && same) || figure.after < allowed;
    case Relation::kMore:
      return (is_growth && condition.value <= 0 && same) || figure.after > allowed;
    case Relation::kAtMost:
      return figure.after <= allowed + slack;
    case Relation::kAtLeast:
      return figure.after >= allowed - slack;
    case Relation::kEqual:
      return std::abs(figure.after - allowed) <= slack;
  }
  return false;
}

std::string FigureText(Unit unit, double value) {
  switch (unit) {
    case Unit::kSeconds:
      return HumanSeconds(value);
    case Unit::kBytes:
      return HumanBytes(value);
    case Unit::kFlops:
      return HumanFlops(value);
    case Unit::kShare:
      return fmt::format("{:.2f}%", 100 * value);
    case Unit::kCount:
      return fmt::format("{}", value);
  }
  return "";
}

std::string ChangeText(const std::string& name, Unit unit, const BeforeAfter& figure) {
  std::string text = fmt::format("{} {} before, {} after", name, FigureText(unit, figure.before),
                                 FigureText(unit, figure.after));
  if (figure.before > 0 && figure.Change() != 0) {
    text += fmt::format(", {:+.2f}%", 100 * figure.Change() / figure.before);
  }
  return text;
}

// Where the change comes from, as far as a report tells: of memory, the tensor that grew most.
CiPlace CauseOfChange(const CostDiff& diff, Unit unit, const std::string& metric) {
  if (unit == Unit::kBytes && !metric.starts_with("traffic") && metric != "hbm_traffic") {
    for (const CostDiff::Tensor& tensor : diff.tensors) {
      if (tensor.bytes.Change() > 0 && !tensor.source.empty()) return SourcePlace(tensor.source);
    }
  }
  return {diff.after_name == "-" ? "" : diff.after_name, 0, 0};
}

}  // namespace

Expected<std::vector<DiffCondition>> ParseDiffConditions(std::string_view text) {
  std::vector<DiffCondition> conditions;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Expected<DiffCondition> condition = ParseCondition(text.substr(begin, end - begin));
    if (!condition) return Fail(std::move(condition.error()));
    conditions.push_back(std::move(*condition));
    begin = end + 1;
  }
  return conditions;
}

std::vector<CiCheck> CheckDiff(const CostDiff& diff, const std::vector<DiffCondition>& conditions) {
  std::vector<CiCheck> checks;
  for (const DiffCondition& condition : conditions) {
    const Unit unit = UnitOf(condition.metric);
    std::string broken, kept;
    for (const auto& [name, figure] : FiguresOf(diff, condition.metric)) {
      std::string& told = Holds(condition, figure) ? kept : broken;
      told += (told.empty() ? "" : "; ") + ChangeText(name, unit, figure);
    }
    CiCheck check{condition.text, CiOutcome::kPassed, "diff", kept, "", {}};
    if (check.message.empty()) check.message = "there is none, before and after";
    if (!broken.empty()) {
      check.outcome = CiOutcome::kFailed;
      check.message = broken;
      check.place = CauseOfChange(diff, unit, condition.metric);
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<FailedCheck> FailedChecks(const std::vector<CiCheck>& checks) {
  std::vector<FailedCheck> failed;
  for (const CiCheck& check : checks) {
    if (check.outcome != CiOutcome::kFailed) continue;
    failed.push_back({check.rule, check.message, check.name, {}, {}});
  }
  return failed;
}

}  // namespace gshard
