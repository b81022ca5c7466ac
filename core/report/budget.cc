// See budget.h.

#include "core/report/budget.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "ir/opcode.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

constexpr const char* kBudgetSchema = "gshard.budget/1";
constexpr const char* kAll = "*";
constexpr std::array kKinds = {
    Opcode::kAllGather,         Opcode::kAllReduce,     Opcode::kAllToAll,
    Opcode::kCollectivePermute, Opcode::kReduceScatter, Opcode::kCollectiveBroadcast,
    Opcode::kRaggedAllToAll,
};

tl::unexpected<Diagnostic> Error(const char* code, const std::string& file, std::string message,
                                 std::string hint = "") {
  Diagnostic error = MakeError(code, std::move(message), std::move(hint));
  error.file = file;
  return Fail(std::move(error));
}

// A bound: a number that can be one.
double BoundAt(const Json& object, const std::string& key) {
  double bound = -1;
  try {
    bound = object.NumberAt(key);
  } catch (const JsonError&) {
  }
  if (!(bound >= 0)) throw JsonError(fmt::format("{} is to be a number, at least 0", key));
  return bound;
}

std::map<std::string, double> BoundsAt(const Json& document, const std::string& key) {
  const Json object = document.At(key);
  std::map<std::string, double> bounds;
  for (const std::string& name : object.Keys()) bounds[name] = BoundAt(object, name);
  if (bounds.empty() && object.Text() != "{}\n") {
    throw JsonError(fmt::format("{} is to be an object", key));
  }
  return bounds;
}

Expected<Budget> Read(const Json& document, const std::string& file) {
  Budget budget;
  if (document.Text().front() != '{') return Error("E-COST-021", file, "a budget is an object");
  for (const std::string& key : document.Keys()) {
    if (key == "schema") {
      if (document.StringAt(key) != kBudgetSchema) {
        return Error(
            "E-COST-021", file,
            fmt::format("the schema is '{}', not {}", document.StringAt(key), kBudgetSchema));
      }
    } else if (key == "chip") {
      budget.chip = document.StringAt(key);
    } else if (key == "step_time_s") {
      budget.step_time_s = BoundAt(document, key);
    } else if (key == "peak_bytes") {
      budget.peak_bytes = BoundAt(document, key);
    } else if (key == "full_rematerializations") {
      budget.full_rematerializations = BoundAt(document, key);
    } else if (key == "bytes_per_device") {
      budget.bytes_per_device = BoundsAt(document, key);
    } else if (key == "collectives") {
      budget.collectives = BoundsAt(document, key);
    } else {
      return Error("E-COST-021", file, fmt::format("a budget has no key '{}'", key),
                   "its keys are chip, step_time_s, peak_bytes, bytes_per_device, collectives and "
                   "full_rematerializations");
    }
  }
  for (const auto& [kind, bound] : budget.collectives) {
    const std::vector<std::string>& kinds = CollectiveKinds();
    if (kind != kAll && std::ranges::find(kinds, kind) == kinds.end()) {
      return Error("E-COST-021", file, fmt::format("no collective is called '{}'", kind),
                   fmt::format("collectives are {}, * for all", fmt::join(kinds, ", ")));
    }
  }
  return budget;
}

// "model" of "model:(1)4", a part of the axis.
std::string WholeAxis(const std::string& axis) { return axis.substr(0, axis.find(':')); }

std::string OverBy(const BoundedFigure& bound) {
  const double factor = bound.value / bound.allowed;
  if (!(factor < 10)) return BoundText(bound.key, bound.value - bound.allowed);
  return fmt::format("{:.1f}%", 100 * (factor - 1));
}

// Three digits, never less than `value`.
double RoundedUp(double value) {
  if (value <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  const double rounded = std::stod(fmt::format("{:.2e}", std::ceil(value / unit) * unit));
  return std::max(rounded, value);
}

}  // namespace

const std::vector<std::string>& CollectiveKinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> of_opcodes;
    for (Opcode kind : kKinds) of_opcodes.emplace_back(OpcodeName(kind));
    return of_opcodes;
  }();
  return names;
}

Expected<Budget> ParseBudget(std::string_view json, const std::string& file) {
  try {
    return Read(Json::Parse(json), file);
  } catch (const JsonError& error) {
    return Error("E-COST-021", file, fmt::format("this is no budget: {}", error.what()));
  }
}

Budget FiguresFor(const CostReport& report, const Mesh* mesh,
                  std::optional<int64_t> full_rematerializations) {
  Budget figures;
  figures.chip = report.chip;
  figures.step_time_s = report.step_time_s;
  figures.peak_bytes = static_cast<double>(report.memory.peak_bytes);
  if (mesh != nullptr) {
    for (const MeshAxis& axis : mesh->axes) figures.bytes_per_device[axis.name] = 0;
  }
  for (Opcode kind : kKinds) figures.collectives[std::string(OpcodeName(kind))] = 0;
  figures.bytes_per_device[kAll] = figures.collectives[kAll] = 0;
  for (const CollectiveRow& row : report.collectives) {
    for (const std::string& axis : row.axes) {
      figures.bytes_per_device[WholeAxis(axis)] += row.bytes_per_device;
    }
    figures.bytes_per_device[kAll] += row.bytes_per_device;
    figures.collectives[row.kind] += row.count;
    figures.collectives[kAll] += row.count;
  }
  if (full_rematerializations) {
    figures.full_rematerializations = static_cast<double>(*full_rematerializations);
  }
  return figures;
}

std::string BoundText(const std::string& key, double value) {
  if (key == "step_time_s") return HumanSeconds(value);
  if (key == "peak_bytes" || key.starts_with("bytes_per_device.")) return HumanBytes(value);
  return fmt::format("{}", value);
}

bool BoundedFigure::IsExceeded() const {
  // A budget that was written by way of text may be off in the last digit.
  return value > allowed * (1 + 1e-12);
}

Expected<std::vector<BoundedFigure>> BoundedFigures(const Budget& figures, const Budget& budget,
                                                    const std::string& file) {
  std::vector<BoundedFigure> bounds;
  auto compare = [&](std::string key, double value, double allowed) {
    bounds.push_back({std::move(key), value, allowed});
  };
  if (budget.step_time_s) compare("step_time_s", *figures.step_time_s, *budget.step_time_s);
  if (budget.peak_bytes) compare("peak_bytes", *figures.peak_bytes, *budget.peak_bytes);
  for (const auto& [axis, allowed] : budget.bytes_per_device) {
    auto sent = figures.bytes_per_device.find(axis);
    if (sent == figures.bytes_per_device.end()) {
      std::string axes;
      for (const auto& [name, bytes] : figures.bytes_per_device) axes += name + " ";
      return Error("E-COST-022", file,
                   fmt::format("bytes_per_device.{}: the mesh has no axis '{}'", axis, axis),
                   DidYouMean(axis, figures.bytes_per_device,
                              [](const auto& row) -> const std::string& { return row.first; }) +
                       "there are: " + axes);
    }
    compare("bytes_per_device." + axis, sent->second, allowed);
  }
  for (const auto& [kind, allowed] : budget.collectives) {
    auto count = figures.collectives.find(kind);
    compare("collectives." + kind, count == figures.collectives.end() ? 0 : count->second, allowed);
  }
  if (budget.full_rematerializations) {
    if (!figures.full_rematerializations) {
      return Error("E-COST-022", file,
                   "full_rematerializations: not known of a program that was partitioned before",
                   "give gshard-cost the text with its shardings, or drop the key");
    }
    compare("full_rematerializations", *figures.full_rematerializations,
            *budget.full_rematerializations);
  }
  return bounds;
}

std::optional<Diagnostic> ChipWarning(const Budget& figures, const Budget& budget,
                                      const std::string& file) {
  if (!budget.step_time_s || budget.chip.empty() || budget.chip == figures.chip) {
    return std::nullopt;
  }
  Diagnostic warning = MakeError(
      "W-COST-001",
      fmt::format("the budget is of {}, this estimate of {}: their times do not compare",
                  budget.chip, figures.chip),
      fmt::format("estimate with --chip {}, or write a budget of {}", budget.chip, figures.chip));
  warning.severity = Severity::kWarning;
  warning.file = file;
  return warning;
}

std::string ExceededAsText(const std::vector<BoundedFigure>& bounds) {
  TextTable table{{{"figure", false}, {"is", true}, {"allowed", true}, {"over by", true}}, {}};
  for (const BoundedFigure& bound : bounds) {
    if (!bound.IsExceeded()) continue;
    table.rows.push_back({bound.key, BoundText(bound.key, bound.value),
                          BoundText(bound.key, bound.allowed), OverBy(bound)});
  }
  return TableAsText(table);
}

std::string BudgetAsJson(const Budget& figures, double head_room) {
  const double factor = 1 + head_room;
  Json document = {{"schema", kBudgetSchema}};
  if (!figures.chip.empty()) document.Set("chip", figures.chip);
  if (figures.step_time_s) document.Set("step_time_s", RoundedUp(*figures.step_time_s * factor));
  if (figures.peak_bytes) {
    document.Set("peak_bytes", static_cast<int64_t>(std::ceil(*figures.peak_bytes * factor)));
  }
  Json bytes{std::initializer_list<Json::Member>{}};
  for (const auto& [axis, sent] : figures.bytes_per_device) {
    bytes.Set(axis, static_cast<int64_t>(std::ceil(sent * factor)));
  }
  document.Set("bytes_per_device", std::move(bytes));
  Json counts{std::initializer_list<Json::Member>{}};
  for (const auto& [kind, count] : figures.collectives) {
    counts.Set(kind, static_cast<int64_t>(std::ceil(count)));
  }
  document.Set("collectives", std::move(counts));
  if (figures.full_rematerializations) {
    document.Set("full_rematerializations", static_cast<int64_t>(*figures.full_rematerializations));
  }
  return document.Text();
}

}  // namespace gshard
